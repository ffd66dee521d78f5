"""The consumer loop: poll -> decode -> drop duplicates -> decide -> one transaction -> relay.

One life of the loop begins with the lease and a reload, and ends with an error that makes memory
void (stale, lost lease, unknown commit); then the next life begins. What the database rejects is
halved until the bad message stands alone and goes to the dead letters (design.md 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Received
from shared.events.registry import TYPE_BY_NAME
from shared.ports.clock import Clock
from shared.ports.errors import MusterError, Rejected, Transient
from shared.ports.publisher import RawMessage, Subscription
from shared.ports.reader import Reader
from shared.ports.store import Restored
from shared.runtime import telemetry
from shared.runtime.assemble import DeadLetter
from shared.runtime.dedupe import RecentIds
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import (
    Handler,
    Outcome,
    Patient,
    Selective,
    Suspendable,
    Versioned,
)
from shared.runtime.intake import Batch, Seen, payloads_of, sort_out
from shared.runtime.session import Session

POLL_SECONDS: Final = 0.2
FAILED_LIVES_MAX: Final = 120
BACKOFF_SECONDS: Final = 0.25
OFFSETS_SECONDS: Final = 1.0
LINGER_SECONDS: Final = ((200, 0.1), (20, 0.04))
"""After a batch of so many messages, the next one is given a moment to grow."""


class Beats(Protocol):
    """Whom the loop tells that it is alive (the watchdog)."""

    def beat(self) -> None:
        """Called at least once a second while the loop turns."""
        ...


class Loop:
    """Runs one handler on one session until `stop`."""

    def __init__(
        self,
        *,
        handler: Handler,
        session: Session,
        reader: Reader,
        seen: Seen,
        subscription: Subscription,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
        failpoints: Failpoints,
        beats: Beats,
        batch_messages_max: int,
    ) -> None:
        self.ready = False
        self._handler = handler
        self._session = session
        self._reader = reader
        self._seen = seen
        self._subscription = subscription
        self._clock = clock
        self._log = log
        self._failpoints = failpoints
        self._beats = beats
        self._batch_messages_max = batch_messages_max
        self._recent = RecentIds()
        self._offsets: dict[tuple[str, int], int] = {}
        self._assigned: set[tuple[str, int]] = set()
        self._stopping = False
        self._passed_over = _passed_over(handler)
        self._linger_seconds = handler.linger_seconds if isinstance(handler, Patient) else 0.0
        self._last_count = 0
        self._skipped: list[tuple[str, int, int]] = []
        """Offsets of messages that were passed over, to be noted with the next unit."""
        self._skipped_since = 0.0

    def stop(self) -> None:
        """Finish the batch in hand, then return from `run`."""
        self._stopping = True

    async def run(self) -> None:
        """Live until stopped; raises after too many failed lives in a row."""
        failed = 0
        while not self._stopping:
            try:
                await self._begin()
                while not self._stopping:
                    if await self._turn():
                        failed = 0
            except MusterError as error:
                failed += 1
                await self._end_life(error)
                if failed > FAILED_LIVES_MAX:
                    raise
        await self._suspend()
        await self._session.close(graceful=True)
        await self._subscription.close()

    async def _suspend(self) -> None:
        """Nobody acts outside without a lease."""
        if isinstance(self._handler, Suspendable):
            await self._handler.suspend()

    async def _begin(self) -> None:
        self._beats.beat()
        restored = await self._session.open()
        self._recent = RecentIds(restored.recent_ids, complete=restored.recent_complete)
        await self._handler.load(self._reader)
        self._assigned = set()
        self._skipped = []
        self._offsets = dict(restored.offsets)
        await self._assign()
        self.ready = True
        self._log.info("ready", **_sizes(restored))

    async def _assign(self) -> None:
        """Read what the handler wants and does not read yet."""
        wanted = {
            (topic.name, partition)
            for topic, partitions in self._handler.topics()
            for partition in partitions
        }
        fresh = wanted - self._assigned
        if fresh:
            await self._subscription.assign({one: self._offsets.get(one, 0) for one in fresh})
            self._assigned |= fresh

    async def _end_life(self, error: MusterError) -> None:
        self.ready = False
        await self._suspend()
        self._log.warning("reloading", error=f"{type(error).__name__}: {error}")
        telemetry.RELOADS.labels(self._handler.name, type(error).__name__).inc()
        await self._session.close(graceful=False)
        await self._subscription.close()
        await asyncio.sleep(BACKOFF_SECONDS)

    async def _turn(self) -> bool:
        """Poll and process once; whether a unit was committed."""
        self._beats.beat()
        self._session.check()
        await self._session.relay.room()
        raw = await self._gather()
        await self._failpoints.reach("loop.polled")
        batch = await self._sort_out(raw)
        due = self._handler.due(self._clock.now_ms())
        batch.fresh.extend(one for one in due if one.event.id not in self._recent)
        if not self._worth_a_unit(batch):
            return False
        batch.skipped, self._skipped = [*self._skipped, *batch.skipped], []
        self._count(batch)
        await self._process(batch.fresh, batch)
        await self._assign()
        return True

    async def _sort_out(self, raw: Sequence[RawMessage]) -> Batch:
        if isinstance(self._handler, Versioned):
            return payloads_of(raw, self._passed_over)
        return await sort_out(raw, self._recent, self._seen, self._passed_over)

    async def _gather(self) -> list[RawMessage]:
        """What has arrived; under load it waits a moment more, as few large units cost less."""
        raw = await self._subscription.poll(self._batch_messages_max, self._wait_seconds())
        linger = self._linger_seconds or _linger_after(self._last_count)
        self._last_count = len(raw)
        if raw and linger and len(raw) < self._batch_messages_max:
            await asyncio.sleep(linger)
            raw += await self._subscription.poll(self._batch_messages_max - len(raw), 0)
        return raw

    def _worth_a_unit(self, batch: Batch) -> bool:
        """Offsets alone are noted once a second; anything else at once."""
        if batch.fresh or batch.dead:
            return True
        now = self._clock.monotonic_seconds()
        if not self._skipped:
            self._skipped_since = now
        self._skipped += batch.skipped
        batch.skipped = []
        return bool(self._skipped) and now - self._skipped_since >= OFFSETS_SECONDS

    def _wait_seconds(self) -> float:
        due_ms = self._handler.next_due_ms()
        if due_ms is None:
            return POLL_SECONDS
        return max(0.0, min(POLL_SECONDS, (due_ms - self._clock.now_ms()) / 1000))

    def _count(self, batch: Batch) -> None:
        name = self._handler.name
        telemetry.DUPLICATES.labels(name).inc(batch.duplicates)
        telemetry.DEAD_LETTERS.labels(name).inc(len(batch.dead))
        telemetry.MESSAGES.labels(name, "all").inc(len(batch.fresh))

    async def _process(self, messages: Sequence[Received], batch: Batch) -> None:
        """Commit `messages`; when the database rejects them, find the one that it rejects."""
        try:
            await self._unit(messages, batch)
        except Rejected as error:
            self._log.error("rejected", error=str(error), messages=len(messages))
            await self._reopen()
            if len(messages) > 1:
                half = len(messages) // 2
                # Letters go first, offsets of what was skipped last: a crash between loses none.
                await self._process(messages[:half], Batch(dead=batch.dead))
                await self._process(messages[half:], Batch(skipped=batch.skipped))
            elif messages:
                await self._bury(messages[0], batch, str(error))
            else:
                raise Transient("the protocol rows themselves were rejected") from error

    async def _unit(self, messages: Sequence[Received], batch: Batch) -> None:
        await self._handler.prepare(messages, self._reader)
        started = self._clock.monotonic_seconds()
        now_ms = self._clock.now_ms()
        outcome = self._handler.decide(messages, now_ms)
        elapsed = self._clock.monotonic_seconds() - started
        telemetry.DECIDE_SECONDS.labels(self._handler.name).observe(elapsed)
        dead = [*batch.dead, *(_letter(one, reason) for one, reason in outcome.dead)]
        consumed, skipped = self._noted(messages, batch.skipped)
        await self._session.commit(outcome, consumed, skipped, dead, now_ms=now_ms)
        self._recent.add(one.event.id for one in consumed)

    def _noted(
        self, messages: Sequence[Received], skipped: Sequence[tuple[str, int, int]]
    ) -> tuple[Sequence[Received], Sequence[tuple[str, int, int]]]:
        """What goes into the inbox, and of what only the offset is noted."""
        if not isinstance(self._handler, Versioned):
            return messages, skipped
        read = [(one.topic, one.partition, one.offset) for one in messages if one.offset >= 0]
        return [one for one in messages if one.offset < 0], [*skipped, *read]

    async def _reopen(self) -> None:
        """Memory is void after a rejection: reload, but keep the batch in hand."""
        await self._suspend()
        await self._session.close(graceful=False)
        restored = await self._session.open()
        self._recent = RecentIds(restored.recent_ids, complete=restored.recent_complete)
        await self._handler.load(self._reader)

    async def _bury(self, message: Received, batch: Batch, error: str) -> None:
        place = (message.topic, message.partition, message.offset)
        telemetry.DEAD_LETTERS.labels(self._handler.name).inc()
        if message.offset >= 0:
            dead = [*batch.dead, _letter(message, error)]
            await self._session.commit(Outcome(), (), [*batch.skipped, place], dead)
        else:  # a deadline is on no topic: its id in the inbox says that it is done with
            self._log.error("deadline dropped", deadline=message.topic, error=error)
            await self._session.commit(Outcome(), [message], batch.skipped, batch.dead)
            self._recent.add([message.event.id])


def _linger_after(messages: int) -> float:
    """Seconds in which a batch may grow, after one of so many messages."""
    return next((seconds for least, seconds in LINGER_SECONDS if messages >= least), 0.0)


def _passed_over(handler: Handler) -> frozenset[bytes]:
    """Type names on the handler's topics that it has no use for."""
    if not isinstance(handler, Selective):
        return frozenset()
    wanted = handler.reads()
    return frozenset(name.encode() for name, kind in TYPE_BY_NAME.items() if kind not in wanted)


def _letter(message: Received, error: str) -> DeadLetter:
    return DeadLetter(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        key=message.event.key,
        headers=tuple(encode_headers(message.event)),
        value=encode_payload(message.event.payload),
        error=error,
    )


def _sizes(restored: Restored) -> dict[str, int]:
    return {"epoch": restored.epoch, "next_seq": restored.next_seq}
