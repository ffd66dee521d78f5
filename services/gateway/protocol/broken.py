"""What is no HTTP, or too long to be read, is answered as a problem like everything else.

The library answers such requests before any route or middleware sees them: in plain text, with
400 also for an address that is too long, and with a header that tells which version it has.
"""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from services.gateway.http.problems import CONTENT_TYPE, Problem

SERVER_NAME: Final = "muster"
"""Without a version: it would tell which of the known faults may be tried."""
TARGET_BYTES_MAX: Final = 8_190
FIELD_BYTES_MAX: Final = 16_380
"""Of one header. Another number than that of the target: it tells which of them was too long."""


class Runner(web.AppRunner):
    """Serves an application."""

    def __init__(self, app: web.Application, **options: Any) -> None:  # noqa: ANN401  # the library's own
        super().__init__(
            app, max_line_size=TARGET_BYTES_MAX, max_field_size=FIELD_BYTES_MAX, **options
        )

    async def _make_server(self) -> web.Server:  # type: ignore[explicit-override]  # new in Python 3.12
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **made._kwargs,  # noqa: SLF001  # the library names no other way to its handler
        )


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:  # type: ignore[explicit-override]  # new in Python 3.12
        return _Handler(self, loop=self._loop, **self._kwargs)


class _Handler(web.RequestHandler):
    __slots__ = ()

    def handle_error(  # type: ignore[explicit-override]  # new in Python 3.12
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A problem in place of the library's text; the connection ends as before."""
        answer = super().handle_error(request, status, exc, message)
        problem = _problem_of(answer.status, exc)
        headers = {"Content-Type": CONTENT_TYPE, "Server": SERVER_NAME}
        told = web.Response(body=problem.body(), status=problem.status, headers=headers)
        told.force_close()
        return told


def _problem_of(status: int, error: BaseException | None) -> Problem:
    if isinstance(error, LineTooLong):
        if TARGET_BYTES_MAX in error.args:
            detail = f"the address must be at most {TARGET_BYTES_MAX} bytes"
            return Problem(414, "address-too-long", detail)
        detail = f"a header must be at most {FIELD_BYTES_MAX} bytes"
        return Problem(431, "header-too-long", detail)
    if isinstance(error, HttpProcessingError):
        detail = error.message.splitlines()[0].rstrip(":") if error.message else ""
        return Problem(400, "malformed", detail or "this is no request of HTTP")
    return Problem(status, "failed", "see the log of the gateway")
