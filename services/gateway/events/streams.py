"""Events: a page of recorded ones, or a stream (server-sent events) that goes on from any id.

A stream tells the id that it goes on from, catches up from the database, then follows the hub. A
reader that was too slow for the hub is told to `resync`, and the stream ends: a reader that comes
again with the last id catches up. Its key is looked at again every few seconds, so that a revoked
one is cut, and so is a reader that takes nothing of what is sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import msgspec
from aiohttp import ClientConnectionResetError, web

from services.gateway.app.context import GatewayContext, RequestContext, bad_parameter
from services.gateway.app.event_hub import Listener
from services.gateway.app.existing import check_names
from services.gateway.app.open_stream import CHECK_SECONDS, OpenStream, Over, place
from services.gateway.events import Row, Which, page_of, read_after, view_of
from services.gateway.http.route import SEQ_MAX
from services.gateway.workloads.workload_reads import row_of
from shared.ports.errors import MusterError

PING_SECONDS: Final = 15.0
CATCH_UP_ROWS: Final = 1_000
PIECE_ROWS: Final = 200
_json: Final = msgspec.json.Encoder()


async def events(gateway: GatewayContext, call: RequestContext) -> web.StreamResponse:
    """Of all workloads that the caller may see."""
    team = call.team_filter()
    await check_names(gateway, call, team=call.query.get("team", ""))
    return await _answer(gateway, call, team, None)


async def workload_events(gateway: GatewayContext, call: RequestContext) -> web.StreamResponse:
    """Of one workload."""
    row = await row_of(gateway, call, "w.id, w.team")
    return await _answer(gateway, call, None, row["id"])


async def _answer(
    gateway: GatewayContext, call: RequestContext, team: str | None, workload_id: str | None
) -> web.StreamResponse:
    wants_stream = "text/event-stream" in call.request.headers.get("Accept", "")
    if wants_stream and call.request.method == "GET":
        for name in ("before", "newest", "since"):
            if name in call.query:
                rule = "is not of a stream; say with `after` where it begins"
                bad_parameter(name, call.query[name], rule)
        return await _stream(gateway, call, team, workload_id)
    return await page_of(gateway, call, Which(team=team, workload_id=workload_id))


async def _stream(
    gateway: GatewayContext, call: RequestContext, team: str | None, workload_id: str | None
) -> web.StreamResponse:
    with place(gateway, call.subject.team):
        listener = Listener(team, workload_id)
        start = _start(call, await gateway.hub.newest())
        with gateway.hub.listening(listener) as fed_after:
            stream = Stream(gateway, call, listener, start)
            return await stream.run(team, workload_id, fed_after)


def _start(call: RequestContext, newest: int) -> int:
    """Where the stream begins: behind the last event the client has, or now."""
    last = call.request.headers.get("Last-Event-ID", "").strip()
    if last:
        if not last.isascii() or not last.isdigit() or int(last[:19]) > SEQ_MAX:
            bad_parameter("Last-Event-ID", last, "must be the id of an event")
        return int(last[:19])
    return call.whole_number("after", newest, 0, SEQ_MAX)


class Stream(OpenStream):
    """One open stream."""

    def __init__(
        self, gateway: GatewayContext, call: RequestContext, listener: Listener, last_seq: int
    ) -> None:
        super().__init__(gateway, call, "text/event-stream")
        self._listener = listener
        self._last_seq = last_seq

    async def run(
        self, team: str | None, workload_id: str | None, fed_after: int
    ) -> web.StreamResponse:
        """Catch up to where the listener is fed from, then follow, until one side ends it."""
        await self._response.prepare(self._call.request)
        with contextlib.suppress(Over, ClientConnectionResetError, ConnectionResetError):
            await self._tell(team, workload_id, fed_after)
        with contextlib.suppress(Over, ClientConnectionResetError, ConnectionResetError):
            await self._in_time(self._response.write_eof())
        return self._response

    async def _tell(self, team: str | None, workload_id: str | None, fed_after: int) -> None:
        await self._send(b": muster\nid: %d\n\n" % self._last_seq)
        try:
            await self._catch_up(team, workload_id, fed_after)
        except MusterError as error:  # it has begun: no problem document can be its answer
            self._gateway.log.warning("stream ended", error=str(error))
            raise Over from error
        while True:
            await self._check()
            await self._follow()

    async def _catch_up(self, team: str | None, workload_id: str | None, fed_after: int) -> None:
        which = Which(team=team, workload_id=workload_id)
        while self._last_seq < fed_after:
            rows = await read_after(self._gateway, self._last_seq, which, CATCH_UP_ROWS)
            await self._write(rows)
            if len(rows) < CATCH_UP_ROWS:
                break

    async def _follow(self) -> None:
        rows = await self._listener.take(CHECK_SECONDS)
        if self._listener.overflowed:
            await self._send(b'event: resync\ndata: {"after":%d}\n\n' % self._last_seq)
            raise Over
        await self._write(rows)
        if self._gateway.clock.monotonic_seconds() - self._written_at > PING_SECONDS:
            await self._send(b": ping\n\n")

    async def _write(self, rows: Sequence[Row]) -> None:
        """In pieces, so that neither a revoked key nor the end of the process waits for all."""
        fresh = [row for row in rows if row["seq"] > self._last_seq]
        for first in range(0, len(fresh), PIECE_ROWS):
            await self._check()
            piece = fresh[first : first + PIECE_ROWS]
            await self._send(b"".join(frame(row) for row in piece))
            self._last_seq = piece[-1]["seq"]


def frame(row: Row) -> bytes:
    """One event in the form of the stream; JSON has no line breaks.

    It has no `event:` line, so that a browser's `onmessage` gets it; its type is in the data.
    """
    return b"id: %d\ndata: %s\n\n" % (row["seq"], _json.encode(view_of(row)))
