"""Units of work: decide, commit, and when one cannot be done, find the message at fault.

What the database rejects is halved until the bad message stands alone and goes to the dead
letters (ADR 2). So is a batch by which `decide` has raised `RAISES_MAX` times, each in a
memory built anew: a bug that one message meets does not stop the work of all others. If messages
are buried by it one after another, the fault is not theirs, and the process ends.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Received
from shared.events.topics import NEWEST_ONLY
from shared.ports.clock import Clock
from shared.ports.errors import MusterError, Rejected, Transient
from shared.ports.reader import Reader
from shared.ports.store import Restored
from shared.runtime import telemetry
from shared.runtime.assemble import DeadLetter
from shared.runtime.dedupe import RecentIds
from shared.runtime.handler import Handler, Outcome, Suspendable, Versioned
from shared.runtime.intake import Batch
from shared.runtime.newer_log import NewerLog
from shared.runtime.session import Session

RAISES_MAX: Final = 3
"""A batch that raised so often is halved."""
TRACE_FRAMES: Final = 10
BURIED_IN_A_ROW_MAX: Final = 2
"""So many messages by which a decision raises, with no unit between them."""


class _RaisedError(Exception):
    """The handler itself failed; its exception is the cause."""


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
        waits: Callable[[], bool] = lambda: True,
        exit_on_error: bool = False,
        newer_log: NewerLog | None = None,
    ) -> None:
        """With `exit_on_error` whatever the handler raises ends the process at once.

        `waits`: whether to wait for the lease of another holder any longer. `newer_log`: asked
        before anything is decided whether the database is older than the log.
        """
        self._waits = waits
        self._newer_log = newer_log
        self._exit_on_error = exit_on_error
        self._buried_in_a_row = 0
        self.recent = RecentIds()
        self._handler = handler
        self._session = session
        self._reader = reader
        self._clock = clock
        self._log = log

    async def open(self) -> Restored:
        """Take the lease, and rebuild memory from the tables."""
        judge = self._newer_log.check if self._newer_log is not None else None
        restored = await self._session.open(self._waits, judge)
        self.recent = RecentIds(restored.recent_ids, complete=restored.recent_complete)
        await self._handler.load(self._reader)
        return restored

    async def suspend(self) -> None:
        """Work outside is stopped while there is no lease."""
        if isinstance(self._handler, Suspendable):
            await self._handler.suspend()

    async def process(self, messages: Sequence[Received], batch: Batch, raised: int = 0) -> None:
        """Commit `messages`; if that cannot be done, find the one at fault.

        `raised`: how often the handler has raised by these messages or a batch of which they were.
        """
        try:
            await self._unit(messages, batch)
            self._buried_in_a_row = 0
        except Rejected as error:
            self._log.error("rejected", error=str(error), messages=len(messages))
            await self._reopen()
            await self._halve(messages, batch, error, 0)
        except _RaisedError as error:
            cause = error.__cause__ or error
            telemetry.RAISED.labels(self._handler.name).inc()
            trace = "".join(traceback.format_exception(cause, limit=-TRACE_FRAMES))
            self._log.error("raised", trace=trace, messages=len(messages), times=raised + 1)
            await self._reopen()
            if raised + 1 < RAISES_MAX:
                await self.process(messages, batch, raised + 1)
            else:
                await self._halve(messages, batch, cause, raised)

    async def _halve(
        self, messages: Sequence[Received], batch: Batch, error: BaseException, raised: int
    ) -> None:
        if len(messages) > 1:
            half = len(messages) // 2
            # Letters go first, offsets of what was skipped last: a crash between loses none.
            await self.process(messages[:half], Batch(dead=batch.dead), raised)
            await self.process(messages[half:], Batch(skipped=batch.skipped), raised)
        elif isinstance(error, Rejected):
            if not messages:
                raise Transient("the protocol rows themselves were rejected") from error
            await self._bury(messages[0], batch, str(error))
        elif messages and self._buried_in_a_row < BURIED_IN_A_ROW_MAX:
            self._buried_in_a_row += 1
            await self._bury(messages[0], batch, f"{type(error).__name__}: {error}")
        else:
            raise error

    async def _unit(self, messages: Sequence[Received], batch: Batch) -> None:
        try:
            await self._handler.prepare(messages, self._reader)
            now_ms = self._session.time.now_ms()
            outcome = self._decide(messages, now_ms)
        except (MusterError, MemoryError):
            raise
        except Exception as error:
            if self._exit_on_error:
                raise
            raise _RaisedError from error
        dead = [*batch.dead, *(_letter(one, reason) for one, reason in outcome.dead)]
        consumed, skipped = self._noted(messages, batch.skipped)
        await self._session.commit(outcome, consumed, skipped, dead, now_ms=now_ms)
        self.recent.add(one.event.id for one in consumed)

    def _decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        started = self._clock.monotonic_seconds()
        outcome = self._handler.decide(messages, now_ms)
        elapsed = self._clock.monotonic_seconds() - started
        telemetry.DECIDE_SECONDS.labels(self._handler.name).observe(elapsed)
        return outcome

    def _noted(
        self, messages: Sequence[Received], skipped: Sequence[tuple[str, int, int]]
    ) -> tuple[Sequence[Received], Sequence[tuple[str, int, int]]]:
        """What goes into the inbox, and of what only the offset is noted."""
        versioned = isinstance(self._handler, Versioned)
        noted, read = [], [*skipped]
        for one in messages:
            if one.topic in NEWEST_ONLY or (versioned and one.offset >= 0):
                read.append((one.topic, one.partition, one.offset))
            else:
                noted.append(one)
        return noted, read

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
