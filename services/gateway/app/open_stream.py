"""An answer that stays open: sent in pieces, cut when its key is revoked or no data is taken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from typing import Final

from aiohttp import web

from services.gateway.app.authentication import caller_of
from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.http.problems import Problem, too_many
from shared.ports.errors import MusterError

CHECK_SECONDS: Final = 2.0
SEND_SECONDS: Final = 10.0
"""In which a reader must have taken a piece."""


class Over(Exception):  # noqa: N818  # says what happened
    """The stream ends from this side."""


@contextlib.contextmanager
def place(gateway: GatewayContext, team: str) -> Iterator[None]:
    """One of the open streams while the block runs; no team can take those of the others."""
    if gateway.streams.total() >= gateway.settings.streams_max:
        raise too_many("too many open streams", 10)
    most = gateway.settings.team_streams_max
    if gateway.streams[team] >= most:
        whose = f"team {team} has" if team else "operators have"
        raise too_many(f"too many open streams: {whose} {most}, which is the most", 10)
    gateway.streams[team] += 1
    try:
        yield
    finally:
        gateway.streams[team] -= 1
        if not gateway.streams[team]:
            del gateway.streams[team]


class OpenStream:
    """What every stream does, whatever it tells; it has begun once `response` is prepared."""

    def __init__(self, gateway: GatewayContext, call: RequestContext, content_type: str) -> None:
        self._gateway = gateway
        self._call = call
        self._response = web.StreamResponse(
            headers={
                "Content-Type": content_type,
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )
        now = gateway.clock.monotonic_seconds()
        self._written_at = self._checked_at = now

    async def _send(self, data: bytes) -> None:
        await self._in_time(self._response.write(data))
        self._written_at = self._gateway.clock.monotonic_seconds()

    async def _in_time(self, writing: Awaitable[None]) -> None:
        """Cut the connection of a client that takes no data for `SEND_SECONDS`."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await writing
        except TimeoutError as error:
            if self._call.request.transport is not None:
                self._call.request.transport.abort()
            raise Over from error

    async def _check(self) -> None:
        """Raises Over when the process ends or the key is no longer good."""
        if self._gateway.closing or not await self._still_allowed():
            raise Over

    async def _still_allowed(self) -> bool:
        """Whether the key is still good; asked every `CHECK_SECONDS`."""
        now = self._gateway.clock.monotonic_seconds()
        if now - self._checked_at < CHECK_SECONDS:
            return True
        self._checked_at = now
        try:
            subject = await caller_of(self._gateway, self._call.request, self._call.text)
        except (MusterError, Problem):
            return False
        return subject == self._call.subject
