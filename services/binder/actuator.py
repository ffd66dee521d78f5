"""Drives the cluster to what the attempts say: one task that acts, one that lists and watches.

Level-triggered. Whatever happens to a gang (a command, a result, an event, a list, a timer) only
puts it on the list of those to look at (`gangs.py`); looking asks it for facts to tell and
operations to do. Operations of many gangs go out together. When the answer to an operation of a
gang is lost, nothing is known of that gang: it waits for a full list (`watcher.py`), nothing is
assumed and nothing repeated blindly; the other gangs go on. Pods that no attempt wants are deleted
after a grace (`orphans.py`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from services.binder import metrics
from services.binder.gang import BoundGang
from services.binder.gang_facts import next_fact
from services.binder.gang_operations import next_operations, over
from services.binder.gang_state import RUNNING, Key, PodsGoal
from services.binder.gangs import Gangs
from services.binder.orphans import Orphans
from services.binder.pulse import Pulse
from services.binder.watcher import Watcher
from shared.events.pods import PodFact
from shared.ports.clock import Clock
from shared.ports.cluster import UNKNOWN, Pod, PodCluster, PodOperation, PodResult

OPERATIONS_PER_REQUEST: Final = 250
"""All answers are awaited before more is sent. A full API server binds 25 pods a second: a round
of so many takes a third of the time that an attempt has, and an eviction waits no longer."""

Tell = Callable[[PodFact, str], None]
Attempted = tuple[BoundGang, int, PodOperation]

log = structlog.get_logger("binder")


class Actuator:
    """See the module. `start` and `stop` may follow each other any number of times."""

    def __init__(self, *, cluster: PodCluster, clock: Clock, tell: Tell) -> None:
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._task: asyncio.Task[None] | None = None
        self._reset(())

    def _reset(self, gangs: Sequence[BoundGang]) -> None:
        self.gangs = Gangs(gangs)
        self.pulse = Pulse()
        self._orphans = Orphans()
        self.watcher = Watcher(self._cluster, self._clock, self.gangs, self._orphans)
        for gang in gangs:
            gang.unknown_round = self.watcher.wanted_round

    def start(self, gangs: Sequence[BoundGang]) -> None:
        """Work on `gangs`; nothing is known of their pods until the first list."""
        self._reset(gangs)
        self.pulse.begin()
        self._task = asyncio.create_task(self._run(), name="actuator")

    async def stop(self) -> None:
        """Send nothing any more; a request on its way may still be executed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                log.error("the actuator had ended", error=repr(task.exception()))

    def check(self) -> None:
        """Raise what ended the task, if it has ended: that is a programmer's error."""
        if self._task is not None and self._task.done():
            self._task.result()
            raise RuntimeError("the actuator has ended")

    # ── called by the handler, after a commit ────────────────────────────────

    def add(self, gang: BoundGang) -> None:
        """A new attempt: create and bind its pods."""
        self.gangs.by_key[gang.key] = gang
        self.gangs.look_at(gang)

    def evict(self, key: Key, grace_seconds: int, fenced_nodes: Sequence[str] = ()) -> None:
        """Delete the pods of an attempt, those on `fenced_nodes` without their kubelets."""
        gang = self.gangs.by_key.get(key)
        if gang is not None and gang.goal is not PodsGoal.CLOSE:
            gang.evict(grace_seconds, fenced_nodes)
            self.gangs.look_at(gang)

    def unstarted(self, key: Key) -> tuple[int, ...]:
        """Ranks of an attempt that the cluster has shown, and shown not to run."""
        gang = self.gangs.by_key.get(key)
        return gang.behind(RUNNING) if gang is not None else ()

    def resize(self, key: Key, number: int, pods: tuple[Pod, ...], grace_seconds: int) -> None:
        """Have these pods of an attempt that runs, and no others."""
        gang = self.gangs.by_key.get(key)
        if gang is not None and gang.goal is PodsGoal.RUN:
            gang.resize(number, pods, grace_seconds)
            self.gangs.look_at(gang)

    def settled(self, key: Key) -> None:
        """It is committed that all pods are bound: what was to be created is needed no more."""
        gang = self.gangs.by_key.get(key)
        if gang is not None:
            gang.pods = ()

    def note(self, key: Key) -> None:
        """It is committed that all pods of an evicted attempt ended well: delete them."""
        gang = self.gangs.by_key.get(key)
        if gang is not None:
            gang.note()
            self.gangs.look_at(gang)

    def close(self, key: Key) -> None:
        """The last fact of an attempt is committed."""
        gang = self.gangs.by_key.get(key)
        if gang is not None:
            gang.close()
            self.gangs.look_at(gang)

    # ── acting ───────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._act())
            tasks.create_task(self.watcher.run())
            tasks.create_task(self.pulse.beat())

    async def _act(self) -> None:
        while True:
            await self.gangs.wait(self._clock.now_ms())
            await self.pulse.stay_quiet_after_a_pause()
            now_ms = self._clock.now_ms()
            self.gangs.run_out(now_ms)
            operations = self._look(now_ms)
            metrics.ATTEMPTS.set(len(self.gangs.by_key))
            if operations:
                await self._apply(operations)
            orphans = self._orphans.due(now_ms, OPERATIONS_PER_REQUEST)
            if orphans:
                await self._delete_orphans(orphans)

    def _look(self, now_ms: int) -> list[Attempted]:
        """Facts of every gang that something happened to, and the operations of a request."""
        operations: list[Attempted] = []
        for gang in self.gangs.take():
            if len(operations) >= OPERATIONS_PER_REQUEST:
                self.gangs.look_at(gang)
                continue
            while (fact := next_fact(gang, now_ms)) is not None:
                self._tell(fact, gang.correlation_id)
            wanted = next_operations(gang, now_ms)
            if wanted:
                self.gangs.begin(gang, now_ms)
                gang.in_flight = True
                operations += [(gang, rank, operation) for rank, operation in wanted]
            elif over(gang):
                self.gangs.by_key.pop(gang.key, None)
        return operations

    async def _apply(self, attempted: Sequence[Attempted]) -> None:
        operations = [operation for _, _, operation in attempted]
        with metrics.REQUEST_SECONDS.time():
            results = await self._request(operations)
        now_ms = self._clock.now_ms()
        for gang, _, _ in attempted:
            gang.in_flight = False
            self.gangs.look_at(gang)
        for (gang, rank, operation), result in zip(attempted, results, strict=True):
            if result.status == UNKNOWN:
                gang.unknown_round = self.watcher.wanted_round
                continue
            gang.answered(rank, operation, result, now_ms)
            if operation.verb == "bind" and not gang.settle_at_ms and gang.bound():
                self.gangs.settle(gang, now_ms)
            elif gang.not_before_ms > now_ms:
                self.gangs.look_at_later(gang, gang.not_before_ms)
            elif (again_ms := gang.forcing.get(rank) or gang.deleting.get(rank)) is not None:
                self.gangs.look_at_later(gang, again_ms)

    async def _request(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """The results; a full list is asked for if one of them is not known."""
        results = await self._cluster.apply(operations)
        _count(operations, results)
        lost = [result for result in results if result.status == UNKNOWN]
        if lost:
            log.warning("no answer", operations=len(lost), error=lost[0].message)
            metrics.LOST_REPLIES.inc(len(lost))
            self.watcher.relist()
        return results

    async def _delete_orphans(self, pods: Sequence[Pod]) -> None:
        log.warning("orphans", names=[pod.name for pod in pods[:10]], count=len(pods))
        metrics.ORPHANS.inc(len(pods))
        await self._request([_removal(pod) for pod in pods])


def _removal(pod: Pod) -> PodOperation:
    """Of a pod that no attempt wants; one that others made stays theirs if nothing of it runs."""
    idle = pod.ended or not pod.node
    return PodOperation(
        verb="release" if pod.group and idle else "delete",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        disruption=bool(pod.group),
    )


def _count(operations: Sequence[PodOperation], results: Sequence[PodResult]) -> None:
    pairs = zip(operations, results, strict=True)
    counts = Counter((operation.verb, result.status) for operation, result in pairs)
    for (verb, status), count in counts.items():
        metrics.OPERATIONS.labels(verb, str(status)).inc(count)
