"""What is no HTTP, or too long to be read, is answered as a problem like everything else.

The library answers such requests before any route or middleware sees them: in plain text, with
400 also for an address that is too long, and with a header that tells which version it has.
"""

from __future__ import annotations

from typing import Final

from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from services.gateway.http.problems import Problem

SERVER_NAME: Final = "muster"
"""Without a version: it would tell which of the known faults may be tried."""
TARGET_BYTES_MAX: Final = 8_190
FIELD_BYTES_MAX: Final = 16_380
"""Of one header. Another number than that of the target: it tells which of them was too long."""


def problem_of(status: int, error: BaseException | None) -> Problem:
    """What is told of a request that the library could not read."""
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
