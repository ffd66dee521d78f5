"""What a pod of a workload has written: passed on as it comes, bounded in bytes and time.

A reader that follows a pod that has not started waits for its start. A stream ends with the
container, and by itself once the workload has ended or runs in another attempt. One that ends for
another reason (its bounds, a revoked key, a cluster that does not answer) is cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from aiohttp import ClientConnectionResetError, web

from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.app.open_stream import CHECK_SECONDS, OpenStream, Over, place
from services.gateway.http.problems import Problem
from services.gateway.http.route import LINES_MAX, LOG_SECONDS_MAX, RANK_MAX
from services.gateway.workloads.workload_reads import row_of
from shared.core.model.lifecycle import State
from shared.ports.errors import MusterError
from shared.ports.pod_logs import LogRequest, LogsMissing, NoLogs

TEXT: Final = "text/plain; charset=utf-8"
START_POLL_SECONDS: Final = 0.5
LAST_SECONDS: Final = 3.0
"""What a container wrote last may come so long after the end of its workload is known."""
GONE: Final = (ClientConnectionResetError, ConnectionResetError)
_AT_WORK: Final = frozenset((State.PLACED.value, State.BOUND.value, State.RUNNING.value))
_WAITS: Final = frozenset((State.RECEIVED.value, State.QUEUED.value, State.HELD.value))
_STOPS: Final = frozenset((State.EVICTING.value, State.CANCELLING.value))


async def logs(gateway: GatewayContext, call: RequestContext) -> web.StreamResponse:
    """Those of one pod, by its rank."""
    row = await row_of(gateway, call, "w.id, w.team, w.state, w.attempt")
    request = _request(gateway, call, row)
    if call.request.method == "HEAD":
        return web.Response(headers={"Content-Type": TEXT})
    with place(gateway, call.subject.team):
        return await LogStream(gateway, call, request).run()


def _request(gateway: GatewayContext, call: RequestContext, row: Mapping[str, Any]) -> LogRequest:
    attempt = (row["attempt"] or 0) - call.truth("previous")
    lines = call.whole_number("tail", -1, 0, LINES_MAX)
    seconds = call.whole_number("sinceSeconds", 0, 1, LOG_SECONDS_MAX)
    return LogRequest(
        workload_id=row["id"],
        attempt=attempt,
        rank=call.whole_number("rank", 0, 0, RANK_MAX),
        follow=call.truth("follow"),
        tail_lines=lines if lines >= 0 else None,
        since_seconds=seconds or None,
        bytes_max=gateway.settings.logs_bytes_max,
    )


class LogStream(OpenStream):
    """One reader of one pod."""

    def __init__(self, gateway: GatewayContext, call: RequestContext, request: LogRequest) -> None:
        super().__init__(gateway, call, TEXT)
        self._request = request
        self._left = request.bytes_max
        self._ended_at: float | None = None

    async def run(self) -> web.StreamResponse:
        """Pass on what comes, until one side ends it.

        Raises:
            Problem: 409 where there is nothing to read.
        """
        async with AsyncExitStack() as stack:
            pieces = await self._open(stack)
            await self._response.prepare(self._call.request)
            try:
                async with asyncio.timeout(self._gateway.settings.logs_seconds_max):
                    await self._tell(stack, pieces)
                await self._in_time(self._response.write_eof())
            except (Over, TimeoutError, MusterError, Problem, *GONE) as error:
                self._cut(error)
        return self._response

    async def _open(self, stack: AsyncExitStack) -> AsyncIterator[bytes] | None:
        """What is to be read; None where it is not there yet and is waited for."""
        try:
            return await stack.enter_async_context(self._gateway.pod_logs.read(self._request))
        except NoLogs as error:
            if error.missing is LogsMissing.NOT_KEPT:
                raise Problem(409, f"logs-{error.missing}", str(error)) from error
            state, attempt = await self._now()
            if self._request.follow and state in _AT_WORK and attempt == self._request.attempt:
                return None
            told = str(error)
            if state in _WAITS and attempt == self._request.attempt:
                told = (
                    f"it is {state} and has no pods; `muster why {self._call.part('id')}` says why"
                )
            raise Problem(409, f"logs-{error.missing}", told) from error

    def _cut(self, error: Exception) -> None:
        """End it so that the reader sees that there may be more: it has no end of its body."""
        if isinstance(error, MusterError | Problem):
            self._gateway.log.warning("logs broke off", error=str(error))
        if self._call.request.transport is not None:
            self._call.request.transport.close()

    async def _tell(self, stack: AsyncExitStack, pieces: AsyncIterator[bytes] | None) -> None:
        while pieces is None:
            await asyncio.sleep(START_POLL_SECONDS)
            await self._check()
            pieces = await self._open(stack)
        await self._pass_on(pieces)

    async def _pass_on(self, pieces: AsyncIterator[bytes]) -> None:
        """Piece by piece; what is asked of the clock and the key is asked between them."""
        source = aiter(pieces)
        coming = asyncio.ensure_future(anext(source, b""))
        try:
            while self._left > 0:
                await asyncio.wait({coming}, timeout=CHECK_SECONDS)
                await self._check()
                if not coming.done():
                    if await self._has_ended():
                        return
                    continue
                piece = coming.result()[: self._left]
                if not piece:
                    return
                self._left -= len(piece)
                await self._send(piece)
                coming = asyncio.ensure_future(anext(source, b""))
            if self._request.follow:
                raise Over
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _has_ended(self) -> bool:
        """Whether the attempt has ended some time ago; its container may not say so."""
        state, attempt = await self._now()
        if attempt == self._request.attempt and state in _AT_WORK | _STOPS:
            return False
        now = self._gateway.clock.monotonic_seconds()
        self._ended_at = self._ended_at or now
        return now - self._ended_at >= LAST_SECONDS

    async def _now(self) -> tuple[str, int]:
        """State and attempt of the workload."""
        rows = await self._gateway.reader.fetch(
            "SELECT state, attempt FROM gateway.workload WHERE id = $1", self._request.workload_id
        )
        return (rows[0]["state"], rows[0]["attempt"] or 0) if rows else ("", 0)
