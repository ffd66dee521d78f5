"""Units of work: decide, commit, and when the database rejects one, find the message at fault.

What the database rejects is halved until the bad message stands alone and goes to the dead
letters (design.md 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Received
from shared.ports.clock import Clock
from shared.ports.errors import Rejected, Transient
from shared.ports.reader import Reader
from shared.ports.store import Restored
from shared.runtime import telemetry
from shared.runtime.assemble import DeadLetter
from shared.runtime.dedupe import RecentIds
from shared.runtime.handler import Handler, Outcome, Suspendable, Versioned
from shared.runtime.intake import Batch
from shared.runtime.session import Session


class Units:
    """One handler on one session; `recent` are the ids of messages that were handled."""

    def __init__(
        self,
        *,
        handler: Handler,
        session: Session,
        reader: Reader,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self.recent = RecentIds()
        self._handler = handler
        self._session = session
        self._reader = reader
        self._clock = clock
        self._log = log

    async def open(self) -> Restored:
        """Take the lease, and rebuild memory from the tables."""
        restored = await self._session.open()
        self.recent = RecentIds(restored.recent_ids, complete=restored.recent_complete)
        await self._handler.load(self._reader)
        return restored

    async def suspend(self) -> None:
        """Nobody acts outside without a lease."""
        if isinstance(self._handler, Suspendable):
            await self._handler.suspend()

    async def process(self, messages: Sequence[Received], batch: Batch) -> None:
        """Commit `messages`; when the database rejects them, find the one that it rejects."""
        try:
            await self._unit(messages, batch)
        except Rejected as error:
            self._log.error("rejected", error=str(error), messages=len(messages))
            await self._reopen()
            if len(messages) > 1:
                half = len(messages) // 2
                # Letters go first, offsets of what was skipped last: a crash between loses none.
                await self.process(messages[:half], Batch(dead=batch.dead))
                await self.process(messages[half:], Batch(skipped=batch.skipped))
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
        self.recent.add(one.event.id for one in consumed)

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
        await self.suspend()
        await self._session.close(graceful=False)
        await self.open()

    async def _bury(self, message: Received, batch: Batch, error: str) -> None:
        place = (message.topic, message.partition, message.offset)
        telemetry.DEAD_LETTERS.labels(self._handler.name).inc()
        if message.offset >= 0:
            dead = [*batch.dead, _letter(message, error)]
            await self._session.commit(Outcome(), (), [*batch.skipped, place], dead)
        else:  # a deadline is on no topic: its id in the inbox says that it is done with
            self._log.error("deadline dropped", deadline=message.topic, error=error)
            await self._session.commit(Outcome(), [message], batch.skipped, batch.dead)
            self.recent.add([message.event.id])


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
