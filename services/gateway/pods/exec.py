"""A command in a pod of a workload: noted in the audit, then run; what it writes is passed on.

The answer is JSON by lines: `stdout` or `stderr` with a piece in base64, and last `exit_code`, or
`error` where the command could not run. An answer without such an end was cut.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.app.open_stream import CHECK_SECONDS, OpenStream, Over, place
from services.gateway.app.submission_rows import cause_of
from services.gateway.http.problems import Problem
from services.gateway.pods.logs import GONE
from services.gateway.workloads.workload_reads import row_of
from shared.events.workloads import CancelWorkload
from shared.ports.errors import MusterError
from shared.ports.pod_exec import CommandEnded, ExecCommand, NoPod, Output, PodExec
from shared.runtime.handler import Change

LINES: Final = "application/x-ndjson"
_json: Final = msgspec.json.Encoder()


async def execute(gateway: GatewayContext, call: RequestContext) -> web.StreamResponse:
    """Run it in the pod of one rank."""
    row = await row_of(gateway, call, "w.id, w.team, w.state, w.attempt")
    if gateway.pod_exec is None:
        told = "no command can be run: pods of a simulated cluster run nothing"
        raise Problem(409, "exec-not-possible", told)
    request = ExecCommand(
        workload_id=row["id"],
        attempt=row["attempt"] or 0,
        rank=call.body.rank,
        command=call.body.command,
    )
    with place(gateway, call.subject.team):
        await gateway.commit(_noted(gateway, call, row, request))
        return await ExecStream(gateway, call, request, gateway.pod_exec).run()


def _noted(
    gateway: GatewayContext, call: RequestContext, row: Mapping[str, Any], request: ExecCommand
) -> Order:
    """The audit row: caller, pod, command; it is there before the command runs."""
    subject, now_ms = f"exec/{request.workload_id}", gateway.clock.now_ms()
    # No message travels for a command; the cause only gives the audit row its id.
    carrier = CancelWorkload(workload_id=request.workload_id, team=row["team"])
    change = Change(
        subject=subject,
        version=0,
        before=f"attempt {request.attempt} rank {request.rank}",
        after=_json.encode(request.command).decode(),
        cause=cause_of(carrier, subject, gateway.random_bytes(10).hex(), now_ms),
        actor=call.subject.name,
        kind="exec",
    )
    return Order(changes=[change])


class ExecStream(OpenStream):
    """One command."""

    def __init__(
        self, gateway: GatewayContext, call: RequestContext, request: ExecCommand, pods: PodExec
    ) -> None:
        super().__init__(gateway, call, LINES)
        self._request = request
        self._pods = pods
        self._left = gateway.settings.logs_bytes_max

    async def run(self) -> web.StreamResponse:
        """Pass on what it writes until it has ended.

        Raises:
            Problem: 409 where there is no container that runs.
        """
        async with AsyncExitStack() as stack:
            try:
                pieces = await stack.enter_async_context(self._pods.run(self._request))
            except NoPod as error:
                raise Problem(409, "exec-no-pod", str(error)) from error
            await self._response.prepare(self._call.request)
            try:
                async with asyncio.timeout(self._gateway.settings.exec_seconds_max):
                    await self._pass_on(pieces)
                await self._in_time(self._response.write_eof())
            except (Over, TimeoutError, MusterError, *GONE) as error:
                self._gateway.log.warning("exec broke off", error=str(error))
                if self._call.request.transport is not None:
                    self._call.request.transport.close()
        return self._response

    async def _pass_on(self, pieces: AsyncIterator[Output | CommandEnded]) -> None:
        source = aiter(pieces)
        coming = asyncio.ensure_future(anext(source, None))
        try:
            while True:
                await asyncio.wait({coming}, timeout=CHECK_SECONDS)
                await self._check()
                if not coming.done():
                    continue
                piece = coming.result()
                if piece is None:
                    raise Over
                await self._send(_line(piece))
                if isinstance(piece, CommandEnded):
                    return
                self._left -= len(piece.data)
                if self._left < 0:
                    raise Over
                coming = asyncio.ensure_future(anext(source, None))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


def _line(piece: Output | CommandEnded) -> bytes:
    if isinstance(piece, Output):
        value: dict[str, Any] = {piece.stream: base64.b64encode(piece.data).decode()}
    elif piece.exit_code is None:
        value = {"error": piece.message}
    else:
        value = {"exit_code": piece.exit_code}
    return _json.encode(value) + b"\n"
