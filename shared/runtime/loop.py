"""The consumer loop: poll -> decode -> drop duplicates -> decide -> one transaction -> relay.

One life of the loop begins with the lease and a reload, and ends with an error that makes memory
void (stale, lost lease, unknown commit); then the next life begins. What is read is in
`polling.py`, what is decided and committed in `units.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from shared.events.topics import team_of
from shared.ports.clock import Clock
from shared.ports.errors import LogLost, MusterError, SlotTaken
from shared.ports.publisher import Subscription
from shared.ports.reader import Reader
from shared.ports.store import Restored
from shared.runtime import telemetry
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import Handler
from shared.runtime.intake import Batch, Seen
from shared.runtime.lost_logs import LostLogs
from shared.runtime.newer_log import NewerLog
from shared.runtime.polling import Polling
from shared.runtime.session import Session
from shared.runtime.units import Units

FAILED_LIVES_MAX: Final = 120
BACKOFF_SECONDS: Final = 0.25
LOST_BACKOFFS: Final = 40
"""So many of these between two looks at a log that has lost records: each loads the memory."""
CLOCK_SECONDS: Final = 0.5
"""Between two looks at a clock that is off."""


class Beats(Protocol):
    """The receiver of the loop's sign of life (the watchdog)."""

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
        exit_on_decision_error: bool = False,
        newer_log: NewerLog | None = None,
    ) -> None:
        self.ready = False
        self._name = handler.name
        self._session = session
        self._log = log
        self._failpoints = failpoints
        self._beats = beats
        self._stopping = False
        self._ended_by = ""
        """What ended the last life, until the next one has begun."""
        self._lost_logs = LostLogs(handler.name, log)
        self._units = Units(
            handler=handler,
            session=session,
            reader=reader,
            clock=clock,
            log=log,
            waits=self._waits,
            newer_log=newer_log,
            exit_on_error=exit_on_decision_error,
        )
        self._polling = Polling(
            handler=handler,
            seen=seen,
            subscription=subscription,
            clock=clock,
            batch_messages_max=batch_messages_max,
        )

    @property
    def why_not_ready(self) -> str:
        """What a person must know of, a line each, else what ended the last life; "" for none."""
        clock = self._session.time
        off = "" if clock.agrees else clock.message
        return "\n".join(self._lost_logs.sentences) or off or self._ended_by

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
            except SlotTaken:
                await self._end(graceful=False)
                raise
            except LogLost as error:
                await self._hold(error)
            except MusterError as error:
                failed += 1
                await self._end_life(error)
                if failed > FAILED_LIVES_MAX:
                    raise
        await self._end(graceful=True)

    def _waits(self) -> bool:
        """A standby is alive while it waits for the lease, and ends when it is told to."""
        self._beats.beat()
        return not self._stopping

    async def _begin(self) -> None:
        self._beats.beat()
        restored = await self._units.open()
        self._polling.forget(restored)
        await self._assign()
        self._lost_logs.over()
        self._ended_by = ""
        self.ready = True
        self._log.info("ready", **_sizes(restored))

    async def _assign(self) -> None:
        self._session.topic_ids = await self._polling.assign()

    async def _hold(self, error: LogLost) -> None:
        """Decide nothing, and look again after a while whether a person has chosen."""
        self.ready = False
        self._lost_logs.tell(error)
        await self._end(graceful=True)
        for _ in range(LOST_BACKOFFS):
            if self._waits():
                await asyncio.sleep(BACKOFF_SECONDS)

    async def _end(self, *, graceful: bool) -> None:
        await self._units.suspend()
        await self._session.close(graceful=graceful)
        await self._polling.close()

    async def _end_life(self, error: MusterError) -> None:
        self.ready = False
        self._ended_by = str(error)
        self._log.warning("reloading", error=f"{type(error).__name__}: {error}")
        telemetry.RELOADS.labels(self._name, type(error).__name__).inc()
        await self._end(graceful=False)
        await asyncio.sleep(BACKOFF_SECONDS)

    async def _turn(self) -> bool:
        """Poll and process once; whether a unit was committed."""
        self._beats.beat()
        await self._session.room()
        if not self._session.time.agrees:
            await asyncio.sleep(CLOCK_SECONDS)
            return False
        raw = await self._polling.gather()
        await self._failpoints.reach("loop.polled")
        batch = await self._polling.sort_out(raw, self._units.recent)
        if not self._polling.worth_a_unit(batch):
            return False
        self._count(batch)
        await self._units.process(batch.fresh, batch)
        await self._assign()
        return True

    def _count(self, batch: Batch) -> None:
        telemetry.DUPLICATES.labels(self._name).inc(batch.duplicates)
        refused = sum(team_of(one.topic) is not None for one in batch.dead)
        telemetry.REFUSED_SUBMISSIONS.labels(self._name).inc(refused)
        telemetry.DEAD_LETTERS.labels(self._name).inc(len(batch.dead) - refused)
        telemetry.UNREADABLE_SAMPLES.labels(self._name).inc(batch.unreadable)
        telemetry.MESSAGES.labels(self._name, "all").inc(len(batch.fresh))


def _sizes(restored: Restored) -> dict[str, int]:
    return {"epoch": restored.epoch, "next_seq": restored.next_seq}
