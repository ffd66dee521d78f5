"""The HTTP server: the library's own, with limits on connections and problems in place of texts.

The library makes one handler for each connection, and calls it when the connection is made, when
bytes come, when an answer is sent and when the client takes less than is written.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiohttp import web

from services.gateway.http.problems import CONTENT_TYPE
from services.gateway.protocol.broken import (
    FIELD_BYTES_MAX,
    SERVER_NAME,
    TARGET_BYTES_MAX,
    problem_of,
)
from services.gateway.protocol.open_connections import OpenConnections


class Runner(web.AppRunner):
    """Serves an application."""

    def __init__(
        self,
        app: web.Application,
        connections: OpenConnections,
        **options: Any,  # noqa: ANN401  # the library's own
    ) -> None:
        super().__init__(
            app, max_line_size=TARGET_BYTES_MAX, max_field_size=FIELD_BYTES_MAX, **options
        )
        self._open = connections

    async def _make_server(self) -> web.Server:  # type: ignore[explicit-override]  # new in Python 3.12
        made = await super()._make_server()
        server = _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            **made._kwargs,  # noqa: SLF001  # the library names no other way to its handler
        )
        server.open = self._open
        return server


class _Server(web.Server):
    open: OpenConnections

    def __call__(self) -> web.RequestHandler:  # type: ignore[explicit-override]  # new in Python 3.12
        return _Handler(self.open, self, loop=self._loop, **self._kwargs)


class _Handler(web.RequestHandler):
    __slots__ = ("_is_answering", "_open")

    def __init__(self, connections: OpenConnections, manager: web.Server, **options: Any) -> None:  # noqa: ANN401  # the library's own
        super().__init__(manager, **options)
        self._open = connections
        self._is_answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        """Begin to serve, or refuse before anything is spent on it."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        refused = self._open.admit(self, address, self._loop.time())
        if refused is None:
            super().connection_made(transport)
        else:
            self.transport = cast(asyncio.Transport, transport)
            self._open.close(self, refused)

    def connection_lost(self, exc: BaseException | None) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        self._open.known.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        super().data_received(data)
        if self._is_answering:
            return
        if self._messages:
            self._is_answering = True
            self._open.known.request_came(self)
        elif data:
            self._open.known.head_began(self, self._loop.time())

    async def finish_response(  # type: ignore[explicit-override]  # new in Python 3.12
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send what is left of an answer; without a further request the connection is idle."""
        sent = await super().finish_response(request, resp, start_time)
        if not self._messages:
            self._is_answering = False
            self._open.known.request_ended(self, self._loop.time())
        return sent

    def pause_writing(self) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        super().pause_writing()
        self._open.known.unread(self, self._loop.time())

    def resume_writing(self) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        super().resume_writing()
        self._open.known.taken(self)

    def handle_error(  # type: ignore[explicit-override]  # new in Python 3.12
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A problem in place of the library's text; the connection ends as before."""
        answer = super().handle_error(request, status, exc, message)
        problem = problem_of(answer.status, exc)
        headers = {"Content-Type": CONTENT_TYPE, "Server": SERVER_NAME}
        told = web.Response(body=problem.body(), status=problem.status, headers=headers)
        told.force_close()
        return told
