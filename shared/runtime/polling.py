"""What has arrived for a handler, in batches that grow under load, and how long to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from shared.events.codec import type_of
from shared.events.envelope import Received
from shared.events.registry import TYPE_BY_NAME
from shared.ports.clock import Clock
from shared.ports.publisher import RawMessage, Subscription
from shared.ports.store import Restored
from shared.runtime import telemetry
from shared.runtime.catching_up import CatchingUp
from shared.runtime.dedupe import RecentIds
from shared.runtime.handler import (
    Chronological,
    Handler,
    Patient,
    Recent,
    Selective,
    Versioned,
)
from shared.runtime.intake import Batch, Seen, handled_before, payloads_of, sort_out
from shared.runtime.positions import Place, Positions

POLL_SECONDS: Final = 0.2
OFFSETS_SECONDS: Final = 1.0
PASSED_OVER_UNITS: Final = 4
"""A unit is at most so many times as large by records that are passed over."""
LINGER_SECONDS: Final = ((200, 0.1), (20, 0.04))
"""After a batch of so many messages, the next one is given a moment to grow."""


class Polling:
    """Reads the subscription of one handler; `assign` says from where, `forget` begins anew."""

    def __init__(
        self,
        *,
        handler: Handler,
        seen: Seen,
        subscription: Subscription,
        clock: Clock,
        batch_messages_max: int,
    ) -> None:
        self._handler = handler
        self._seen = seen
        self._subscription = subscription
        self._clock = clock
        self._batch_messages_max = batch_messages_max
        self._assigned: set[tuple[str, int]] = set()
        self._positions = Positions(handler.name)
        self._catching_up = CatchingUp(clock)
        self._passed_over = _passed_over(handler)
        self._since_ms = handler.since_ms if isinstance(handler, Recent) else _from_the_beginning
        self._linger_seconds = handler.linger_seconds if isinstance(handler, Patient) else 0.0
        self._last_count = 0
        self._skipped: list[tuple[str, int, int]] = []
        """Offsets of messages that were passed over, to be noted with the next unit."""
        self._skipped_since = 0.0

    def forget(self, restored: Restored) -> None:
        """Nothing is read yet; what is committed says where to begin."""
        self._assigned = set()
        self._skipped = []
        self._positions.restore(restored)
        self._catching_up.forget()

    async def assign(self) -> Mapping[str, str]:
        """Read what the handler wants and does not read yet; ids of all topics that it reads.

        Raises:
            LogLost: records that were not read are gone.
        """
        wanted = {
            (topic.name, partition)
            for topic, partitions in self._handler.topics()
            for partition in partitions
        }
        fresh = wanted - self._assigned
        if fresh:
            await self._begin(fresh)
            self._assigned |= fresh
        return self._positions.topic_ids

    async def _begin(self, fresh: Collection[Place]) -> None:
        wanted = self._positions.wanted(fresh)
        logs = await self._subscription.assign(wanted)
        starts = self._positions.starts(logs, begun_late=bool(self._assigned))
        elsewhere = {place[0] for place, at in starts.items() if wanted[place] not in {at, None}}
        if elsewhere:
            again = {place: at for place, at in starts.items() if place[0] in elsewhere}
            await self._subscription.assign(again)
        self._skipped += self._positions.to_note(starts)
        ends = {place: log.end_offset for place, log in logs.items()}
        if not self._assigned:  # else only `watch_lag` knows, and lives may be too short for that
            behind = sum(max(0, end - starts.get(place, 0)) for place, end in ends.items())
            telemetry.LAG.labels(self._handler.name).set(behind)
        self._catching_up.expect(starts, ends)
        self._keep_in_order()

    async def close(self) -> None:
        """Read no more."""
        await self._subscription.close()

    async def gather(self) -> list[RawMessage]:
        """What has arrived; under load it waits a moment more, as few large units cost less."""
        raw = await self._poll(self._batch_messages_max, self._wait_seconds())
        linger = self._linger_seconds or _linger_after(self._last_count)
        self._last_count = len(raw)
        if raw and linger and len(raw) < self._batch_messages_max:
            await asyncio.sleep(linger)
            raw += await self._poll(self._batch_messages_max - len(raw), 0)
        if self._passed_over:
            raw = await self._in_place_of_passed_over(raw)
        return raw

    async def _poll(self, most: int, wait_seconds: float) -> list[RawMessage]:
        raw = await self._subscription.poll(most, wait_seconds)
        self._catching_up.read(raw)
        self._keep_in_order()
        return raw

    def _keep_in_order(self) -> None:
        if isinstance(self._handler, Chronological):
            self._subscription.wait_for(self._catching_up.topics)

    async def _in_place_of_passed_over(self, raw: list[RawMessage]) -> list[RawMessage]:
        """A full unit goes on until nine parts in ten of it are read, within bounds."""
        fresh, most = raw, self._batch_messages_max
        while most <= len(raw) < PASSED_OVER_UNITS * most:
            room = sum(type_of(one.headers) in self._passed_over for one in fresh)
            fresh = await self._poll(room, 0) if room > most // 10 else []
            if not fresh:
                break
            raw += fresh
        return raw

    async def sort_out(self, raw: list[RawMessage], recent: RecentIds) -> Batch:
        """Decoded, without what was handled before, and with what is due now."""
        if isinstance(self._handler, Versioned):
            batch = payloads_of(raw, self._passed_over)
        else:
            batch = await sort_out(raw, recent, self._seen, self._passed_over, self._since_ms)
        if self._catching_up.over:
            batch.fresh += await self._due(recent)
        return batch

    async def _due(self, recent: RecentIds) -> list[Received]:
        """Deadlines that have passed; a handler may ask again for one that was handled."""
        due = self._handler.due(self._clock.now_ms())
        known = await handled_before(due, recent, self._seen)
        return [one for one in due if one.event.id not in known]

    def worth_a_unit(self, batch: Batch) -> bool:
        """Offsets alone are noted once a second; anything else at once, with those before it."""
        if not (batch.fresh or batch.dead or self._offsets_are_due(batch)):
            self._skipped += batch.skipped
            return False
        batch.skipped, self._skipped = [*self._skipped, *batch.skipped], []
        return True

    def _offsets_are_due(self, batch: Batch) -> bool:
        now = self._clock.monotonic_seconds()
        if not self._skipped:
            self._skipped_since = now
        skipped = self._skipped or batch.skipped
        return bool(skipped) and now - self._skipped_since >= OFFSETS_SECONDS

    def _wait_seconds(self) -> float:
        due_ms = self._handler.next_due_ms()
        if due_ms is None or not self._catching_up.over:
            return POLL_SECONDS
        return max(0.0, min(POLL_SECONDS, (due_ms - self._clock.now_ms()) / 1000))


def _linger_after(messages: int) -> float:
    """Seconds in which a batch may grow, after one of so many messages."""
    return next((seconds for least, seconds in LINGER_SECONDS if messages >= least), 0.0)


def _from_the_beginning(topic: str) -> int:  # noqa: ARG001  # the same of every topic
    return 0


def _passed_over(handler: Handler) -> frozenset[bytes]:
    """Type names on the handler's topics that it has no use for."""
    if not isinstance(handler, Selective):
        return frozenset()
    wanted = handler.reads()
    return frozenset(name.encode() for name, kind in TYPE_BY_NAME.items() if kind not in wanted)
