"""A leased (service, shard): everything that it writes and publishes goes through here.

`open` takes the lease, restores the protocol state and publishes what a dead holder had committed
but not published. `commit` makes one outcome true and hands it to the relay. Any error but
Transient leaves the session broken: the owner closes it, opens it again and reloads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Final

import structlog

from shared.events.envelope import Received
from shared.ports.clock import Clock
from shared.ports.errors import LeaseLost, MusterError, TaskEnded, Transient, UnknownCommit
from shared.ports.lease import Lease
from shared.ports.publisher import Publisher
from shared.ports.store import Restored, Store, Unit
from shared.runtime.agreed_clock import AgreedClock
from shared.runtime.assemble import Counters, DeadLetter, assemble
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import Outcome
from shared.runtime.relay import Relay
from shared.runtime.seals import Chain, Seals
from shared.runtime.tasks import end
from shared.runtime.telemetry import (
    CLOCK_OFF,
    COMMIT_SECONDS,
    OUTBOX_OLDEST,
    OUTBOX_WAITING,
    UNITS,
)

ACQUIRE_SECONDS: Final = 0.2
RENEW_SECONDS: Final = 1.5
SILENCE_SECONDS: Final = 3.3
"""A holder that could not renew for so long stops by itself."""
READY_SECONDS: Final = 3.0
"""Without a commit or a renewal for so long it is not ready."""
RETRIES_MAX: Final = 5
DRAIN_SECONDS: Final = 5.0
ROOM_CHECK_SECONDS: Final = 1.0
MAINTAIN_SECONDS: Final = 3_600.0
"""Parts of tables are made for the two days to come; a service lives longer than that."""

Judge = Callable[[Restored], Awaitable[None]]
"""Looks at what was restored; what it raises ends the life before anything is committed."""


class Session:
    """See the module. One task at a time commits; others wait."""

    def __init__(
        self,
        *,
        source: str,
        lease: Lease,
        store: Store,
        publisher: Publisher,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
        failpoints: Failpoints,
        seals: Seals | None = None,
    ) -> None:
        """Without `seals` the audit is not sealed."""
        self.source = source
        self._seals = seals or Seals(source, "", None, 0)
        self.topic_ids: Mapping[str, str] = {}
        """Ids of the topics that are read, noted with the offsets."""
        self.relay = Relay(publisher, failpoints, 0)
        self._lease = lease
        self._store = store
        self._publisher = publisher
        self.time = AgreedClock(clock)
        """The time for decisions."""
        self._clock = clock
        self._log = log
        self._failpoints = failpoints
        self._counters = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")
        self._tasks: list[asyncio.Task[None]] = []
        self._committing = asyncio.Lock()
        self._broken: MusterError | None = LeaseLost("the session is not open")
        self._marked_seq = 0
        self._clock_is_off = False
        self._proved_at = 0.0
        """When the database last said that the lease is ours, monotonic seconds."""

    async def open(
        self,
        waits: Callable[[], bool] = lambda: True,
        judge: Judge | None = None,
    ) -> Restored:
        """Wait for the lease, restore, start the relay; raises Transient without a database.

        `waits` is asked before each try: False gives up the wait (LeaseLost), as a standby that is
        to stop does. `judge` hears what was restored before anything is committed here, a seal
        too: what it raises breaks the session, and is raised.
        """
        while waits():
            if await self._lease.try_acquire():
                break
            await asyncio.sleep(ACQUIRE_SECONDS)
        else:
            raise LeaseLost("the wait for the lease was given up")
        await self._renew()
        await self._failpoints.reach("lease.before_restore")
        restored = await self._store.restore()
        self._counters = Counters(
            next_seq=restored.next_seq,
            next_unit=restored.next_unit,
            next_audit=restored.next_audit,
            last_digest=restored.last_digest,
        )
        self._seals.begin()
        self.relay = Relay(self._publisher, self._failpoints, restored.acked_seq)
        self.relay.put(restored.unacked, self._clock.monotonic_seconds())
        OUTBOX_OLDEST.labels(self.source).set_function(self._oldest_seconds)
        self._marked_seq = restored.acked_seq
        self._broken = None
        self._tasks = [
            self._start("relay", self.relay.run()),
            self._start("lease", self._keep_lease()),
            self._start("tables", self._keep_tables()),
        ]
        if judge is not None:
            await self._judged(judge(restored))
        self._tasks.append(self._start("watermark", self._keep_watermark()))
        self._log.info("opened", epoch=restored.epoch, unacked=len(restored.unacked))
        return restored

    async def _judged(self, judging: Awaitable[None]) -> None:
        try:
            await judging
        except MusterError as error:
            self._broken = error
            raise

    def _start(self, name: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task without which the session is broken."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or self._broken is not None:
            return
        error = task.exception()
        why = f"{type(error).__name__}: {error}" if error is not None else "it returned"
        self._log.error("task ended", task=task.get_name(), error=why, exc_info=error)
        self._broken = TaskEnded(f"the {task.get_name()} task of the session has ended: {why}")

    async def room(self) -> None:
        """Return when little waits to be published; raises what broke the session meanwhile."""
        while True:
            self.check()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ROOM_CHECK_SECONDS):
                    return await self.relay.room()

    @property
    def ready(self) -> bool:
        """Whether something was committed or renewed lately, so that a unit would be, too.

        Not while the clock does not agree with the database's.
        """
        silent = self._clock.monotonic_seconds() - self._proved_at
        return self._broken is None and silent < READY_SECONDS and self.time.agrees

    def check(self) -> None:
        """Raise what broke the session, so that an idle holder notices a lost lease too."""
        if self._broken is not None:
            raise self._broken

    async def commit(
        self,
        outcome: Outcome,
        consumed: Sequence[Received] = (),
        skipped: Sequence[tuple[str, int, int]] = (),
        dead: Sequence[DeadLetter] = (),
        *,
        now_ms: int | None = None,
        seal: bool = False,
    ) -> Unit:
        """Make `outcome` true and publish it; returns when it is durable.

        `now_ms` is the time with which it was decided, so that a replay can use it again. `seal`:
        whether to tell at once how far the audit goes, not only when a second has passed.

        Raises:
            Transient: nothing happened, and trying again did not help.
            Stale, UnknownCommit, Rejected: the memory that led to it is void; reload.
        """
        async with self._committing:
            if self._broken is not None:
                raise self._broken
            now_ms = self._clock.now_ms() if now_ms is None else now_ms
            unit = assemble(
                self.source, self._counters, outcome, consumed=consumed, dead=dead, now_ms=now_ms
            )
            unit.skipped = skipped
            unit.topic_ids = self.topic_ids
            unit.acked_seq = self._marked_seq = self.relay.acked_seq
            sealed = self._seal(unit, at_once=seal)
            await self._failpoints.reach("unit.before_commit")
            await self._commit_bounded(unit)
            self._counters = self._counters.after(unit)
            self._proved_at = self._clock.monotonic_seconds()
            if sealed:
                self._seals.sealed(self._chain, self._proved_at)
            await self._failpoints.reach("unit.after_commit")
            self.relay.put(unit.outbox, self._proved_at)
        UNITS.labels(self.source).inc()
        OUTBOX_WAITING.labels(self.source).set(self.relay.waiting)
        return unit

    @property
    def _chain(self) -> Chain:
        """How far the audit goes."""
        return Chain(sequence=self._counters.next_audit - 1, digest=self._counters.last_digest)

    def _seal(self, unit: Unit, *, at_once: bool) -> bool:
        """Put a seal at the end of what the unit tells, where one is due."""
        chain = self._chain.after(unit.audits)
        if not self._seals.due(chain, self._clock.monotonic_seconds(), at_once=at_once):
            return False
        seq = unit.outbox[-1].seq + 1 if unit.outbox else self._counters.next_seq
        unit.outbox = [*unit.outbox, self._seals.row(chain, seq, unit.at_ms)]
        return True

    def _oldest_seconds(self) -> float:
        return self.relay.oldest_seconds(self._clock.monotonic_seconds())

    async def _commit_bounded(self, unit: Unit) -> None:
        started = self._clock.monotonic_seconds()
        for attempt in range(RETRIES_MAX):
            try:
                await self._store.commit(unit)
                break
            except UnknownCommit as error:
                self._broken = error
                raise
            except Transient:
                if attempt == RETRIES_MAX - 1:
                    raise
                await asyncio.sleep(0.02 * 2**attempt)
            except MusterError as error:
                self._broken = error
                raise
        COMMIT_SECONDS.labels(self.source).observe(self._clock.monotonic_seconds() - started)

    async def _keep_lease(self) -> None:
        """Renew; a holder that could not for too long stops by itself.

        But not while a unit of its own is being committed: that has the row of the lease, so a
        renewal waits for it, and no other process can take the lease meanwhile.
        """
        renewed = self._clock.monotonic_seconds()
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._renew()
                renewed = self._proved_at
            except LeaseLost as error:
                self._broken = error
                return
            except MusterError as error:
                self._log.warning("lease not renewed", error=str(error))
                silent = self._clock.monotonic_seconds() - renewed > SILENCE_SECONDS
                if silent and not self._committing.locked():
                    self._broken = LeaseLost("could not renew in time")
                    return

    async def _renew(self) -> None:
        """Keep the lease, and hold the clock against the database's."""
        asked_at = self._clock.monotonic_seconds()
        self.time.told(await self._lease.renew(), asked_at)
        self._proved_at = self._clock.monotonic_seconds()
        CLOCK_OFF.labels(self.source).set(self.time.off_ms / 1000)
        if self.time.agrees is self._clock_is_off:
            self._clock_is_off = not self._clock_is_off
            if self._clock_is_off:
                self._log.error("clock is off", message=self.time.message)
            else:
                self._log.info("clock agrees again")

    async def _keep_watermark(self) -> None:
        """When idle, write down every second what was acknowledged since, and seal the audit."""
        while True:
            await asyncio.sleep(1.0)
            due = self._seals.due(self._chain, self._clock.monotonic_seconds())
            marks = self.relay.acked_seq > self._marked_seq
            if (marks or due) and not self._committing.locked():
                with contextlib.suppress(MusterError):
                    await self.commit(Outcome())

    async def _keep_tables(self) -> None:
        """Every hour, also while it idles; a failure is told, and tried again after another."""
        while True:
            await asyncio.sleep(MAINTAIN_SECONDS)
            try:
                await self._store.maintain()
            except MusterError as error:
                self._log.warning("tables not maintained", error=str(error))

    async def close(self, *, graceful: bool) -> None:
        """Stop the tasks; gracefully: publish all, write the watermark, give up the lease."""
        if graceful and self._broken is None:
            if self._seals.due(self._chain, self._clock.monotonic_seconds(), at_once=True):
                with contextlib.suppress(MusterError):
                    await self.commit(Outcome(), seal=True)
            await self.relay.drained(DRAIN_SECONDS)
            with contextlib.suppress(MusterError):
                await self.commit(Outcome())
        self._broken = self._broken or LeaseLost("the session is closed")
        await end(self._tasks)
        self._tasks = []
        if graceful:
            with contextlib.suppress(MusterError):
                await self._lease.release()
