"""Drives the cluster to what the attempts say: one task that acts, one that lists and watches.

Level-triggered. Whatever happens to a gang (a command, a result, an event, a list, a timer) only
puts it on the list of those to look at; looking asks it for facts to tell and operations to do.
Operations of many gangs go out as one request. A request without an answer means that nothing is
known: its gangs wait for a full list, nothing is assumed and nothing repeated blindly.

The watch starts from a list and is never trusted for long: every 15 s, and after any error, all is
listed again. Pods that no attempt wants are deleted after a grace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

import structlog

from services.binder import metrics
from services.binder.gang import BIND_DEADLINE_MS, SETTLE_MS, Gang, Goal, Key
from services.binder.orphans import Orphans
from shared.events.pods import PodFact
from shared.ports.clock import Clock
from shared.ports.cluster import Cluster, Operation, Pod, Result, WatchEvent
from shared.ports.errors import ResourceVersionExpired, Transient

OPERATIONS_PER_REQUEST: Final = 1_000
LOOK_SECONDS_MAX: Final = 1.0
RELIST_SECONDS: Final = 15.0
LIST_SECONDS_MAX: Final = 60.0
BACKOFF_SECONDS: Final = (0.1, 5.0)
PULSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 2.5
"""Standing still for longer, the process may have lost its lease without knowing (5 s)."""
QUIET_SECONDS: Final = 3.0
"""So long it then stays quiet: a lease is renewed, or found lost, within this time."""
SLICE: Final = 1_000
LOOKS_MAX: Final = 4_000
"""Gangs looked at in one go, about 5 ms; between two goes the loop of the service turns."""

Tell = Callable[[PodFact, str], None]
Attempted = tuple[Gang, int, Operation]

log = structlog.get_logger("binder")


class Actuator:
    """See the module. `start` and `stop` may follow each other any number of times."""

    def __init__(self, *, cluster: Cluster, clock: Clock, tell: Tell) -> None:
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._random = Random(0)
        self._task: asyncio.Task[None] | None = None
        self._last_pulse = 0.0
        self._reset(())

    def _reset(self, gangs: Iterable[Gang]) -> None:
        self._gangs = {gang.key: gang for gang in gangs}
        self._looks: dict[Key, Gang] = dict(self._gangs)
        self._settling: deque[Gang] = deque()
        self._deadlines: deque[tuple[int, Gang]] = deque()
        self._retries: list[tuple[int, Key]] = []
        self._orphans = Orphans()
        self._wake = asyncio.Event()
        self._round = 0
        self._watching: asyncio.Timeout | None = None
        self._wanted_round = 1
        self._quiet_until = 0.0
        for gang in self._gangs.values():
            gang.unknown_round = 1
            self._set_deadline(gang)

    # ── called by the handler, after a commit ────────────────────────────────

    def start(self, gangs: Sequence[Gang]) -> None:
        """Work on `gangs`, of whose pods nothing is known until the first list."""
        self._reset(gangs)
        self._last_pulse = asyncio.get_running_loop().time()
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

    def add(self, gang: Gang) -> None:
        """A new attempt: create and bind its pods."""
        self._gangs[gang.key] = gang
        self._set_deadline(gang)
        self._look_at(gang)

    def evict(self, key: Key, grace_seconds: int) -> None:
        """Delete the pods of an attempt."""
        gang = self._gangs.get(key)
        if gang is not None and gang.goal is not Goal.CLOSE:
            gang.evict(grace_seconds)
            self._look_at(gang)

    def resize(self, key: Key, number: int, pods: tuple[Pod, ...], grace_seconds: int) -> None:
        """Have these pods of an attempt that runs, and no others."""
        gang = self._gangs.get(key)
        if gang is not None and gang.goal is Goal.RUN:
            gang.resize(number, pods, grace_seconds)
            self._set_deadline(gang)
            self._look_at(gang)

    def settled(self, key: Key) -> None:
        """It is committed that all pods are bound: what was to be created is needed no more."""
        gang = self._gangs.get(key)
        if gang is not None:
            gang.pods = ()

    def note(self, key: Key) -> None:
        """It is committed that all pods of an evicted attempt ended well: delete them."""
        gang = self._gangs.get(key)
        if gang is not None:
            gang.note()
            self._look_at(gang)

    def close(self, key: Key) -> None:
        """The last fact of an attempt is committed."""
        gang = self._gangs.get(key)
        if gang is not None:
            gang.close()
            self._look_at(gang)

    # ── acting ───────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._act())
            tasks.create_task(self._list_and_watch())
            tasks.create_task(self._pulse())

    async def _act(self) -> None:
        while True:
            await self._sleep()
            now_ms = self._clock.now_ms()
            self._timers(now_ms)
            operations = self._look(now_ms)
            metrics.ATTEMPTS.set(len(self._gangs))
            if operations:
                await self._apply(operations)
            orphans = self._orphans.due(now_ms, OPERATIONS_PER_REQUEST)
            if orphans:
                await self._delete_orphans(orphans)

    async def _sleep(self) -> None:
        if self._looks:
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_timer()):
                    await self._wake.wait()
        self._wake.clear()
        await self._stay_quiet_after_a_pause()

    async def _stay_quiet_after_a_pause(self) -> None:
        """A process that was stopped may have lost its lease; the loop will know soon."""
        now = asyncio.get_running_loop().time()
        if now - self._last_pulse > PAUSE_SECONDS_MAX or now < self._quiet_until:
            log.warning("stood still", seconds=round(now - self._last_pulse, 1))
            await asyncio.sleep(QUIET_SECONDS)

    async def _pulse(self) -> None:
        """Notice when the process did not run for a while."""
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            now = asyncio.get_running_loop().time()
            if now - self._last_pulse > PAUSE_SECONDS_MAX:
                self._quiet_until = now + QUIET_SECONDS
            self._last_pulse = now

    def _seconds_to_timer(self) -> float:
        now_ms = self._clock.now_ms()
        next_ms = now_ms + round(LOOK_SECONDS_MAX * 1000)
        if self._settling:
            next_ms = min(next_ms, self._settling[0].settle_at_ms)
        if self._retries:
            next_ms = min(next_ms, self._retries[0][0])
        return max(0.0, (next_ms - now_ms) / 1000)

    def _timers(self, now_ms: int) -> None:
        while self._settling and self._settling[0].settle_at_ms <= now_ms:
            self._look_again(self._settling.popleft().key)
        while self._retries and self._retries[0][0] <= now_ms:
            self._look_again(heappop(self._retries)[1])
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            gang = self._deadlines.popleft()[1]
            gang.expire(now_ms)
            self._look_again(gang.key)

    def _look(self, now_ms: int) -> list[Attempted]:
        """Facts of every gang that something happened to, and the operations of a request."""
        items = list(self._looks.items())
        looks, self._looks = dict(items[:LOOKS_MAX]), dict(items[LOOKS_MAX:])
        operations: list[Attempted] = []
        for key, gang in looks.items():
            if len(operations) >= OPERATIONS_PER_REQUEST:
                self._looks[key] = gang
                continue
            fact = gang.fact(now_ms)
            if fact is not None:
                self._tell(fact, gang.correlation_id)
            wanted = gang.operations(now_ms)
            if wanted:
                gang.in_flight = True
                operations += [(gang, rank, operation) for rank, operation in wanted]
            elif gang.over():
                self._gangs.pop(key, None)
        return operations

    async def _apply(self, attempted: Sequence[Attempted]) -> None:
        operations = [operation for _, _, operation in attempted]
        with metrics.REQUEST_SECONDS.time():
            results = await self._request(operations)
        now_ms = self._clock.now_ms()
        for gang, _, _ in attempted:
            gang.in_flight = False
            self._look_at(gang)
        if results is None:
            for gang, _, _ in attempted:
                gang.unknown_round = self._wanted_round
            return
        for (gang, rank, operation), result in zip(attempted, results, strict=True):
            gang.answered(rank, operation, result, now_ms)
            if operation.verb == "bind" and not gang.settle_at_ms and gang.bound():
                gang.settle_at_ms = now_ms + SETTLE_MS
                self._settling.append(gang)
            elif gang.not_before_ms > now_ms:
                heappush(self._retries, (gang.not_before_ms, gang.key))

    async def _request(self, operations: Sequence[Operation]) -> list[Result] | None:
        """The results, or None after asking for a full list because nothing is known."""
        try:
            results = await self._cluster.apply(operations)
        except Transient as error:
            log.warning("no answer", operations=len(operations), error=str(error))
            metrics.LOST_REPLIES.inc()
            self._relist()
            return None
        _count(operations, results)
        return results

    async def _delete_orphans(self, pods: Sequence[Pod]) -> None:
        log.warning("orphans", names=[pod.name for pod in pods[:10]], count=len(pods))
        metrics.ORPHANS.inc(len(pods))
        await self._request([Operation(verb="delete", name=pod.name, uid=pod.uid) for pod in pods])

    # ── seeing ───────────────────────────────────────────────────────────────

    async def _list_and_watch(self) -> None:
        low, high = BACKOFF_SECONDS
        backoff = low
        while True:
            self._round += 1
            try:
                async with asyncio.timeout(LIST_SECONDS_MAX):
                    pods, version = await self._cluster.list_pods()
                await self._listed(pods, version, self._round)
                backoff = low
                if self._round >= self._wanted_round:
                    await self._watch(version)
            except (Transient, ResourceVersionExpired, TimeoutError) as error:
                log.info("list again", error=str(error))
                await asyncio.sleep(backoff * (0.5 + self._random.random()))
                backoff = min(backoff * 2, high)

    async def _watch(self, version: int) -> None:
        """Take in events until it is time to list again."""
        try:
            async with (
                asyncio.timeout(RELIST_SECONDS) as self._watching,
                contextlib.aclosing(self._cluster.watch(version)) as batches,  # type: ignore[type-var]  # an async generator by every adapter
            ):
                async for events in batches:
                    self._seen(events)
        except TimeoutError:
            return
        finally:
            self._watching = None

    def _relist(self) -> None:
        """Ask for a list that begins after now, and end the watch for it."""
        self._wanted_round = self._round + 1
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.reschedule(asyncio.get_running_loop().time())

    def _seen(self, events: Sequence[WatchEvent]) -> None:
        now_ms = self._clock.now_ms()
        gangs, looks = self._gangs, self._looks
        for event in events:
            pod = event.pod
            key = (pod.workload_id, pod.attempt)
            gang = gangs.get(key)
            if gang is None:
                self._orphans.seen(pod, now_ms, gone=event.type == "DELETED")
            elif gang.observed(event.type, pod, now_ms):
                looks[key] = gang
        self._wake.set()

    async def _listed(self, pods: Sequence[Pod], version: int, list_round: int) -> None:
        """Compare everything, in slices that leave room for the loop."""
        metrics.RELISTS.inc()
        now_ms = self._clock.now_ms()
        uids = set()
        for index, pod in enumerate(pods):
            uids.add(pod.uid)
            gang = self._gangs.get((pod.workload_id, pod.attempt))
            if gang is None:
                self._orphans.seen(pod, now_ms, gone=False)
            elif gang.observed("MODIFIED", pod, now_ms):
                self._look_at(gang)
            if index % SLICE == 0:
                await asyncio.sleep(0)
        self._orphans.keep_only(uids)
        for index, gang in enumerate(list(self._gangs.values())):
            if gang.listed(uids, version, list_round, now_ms):
                self._look_at(gang)
            if index % SLICE == 0:
                await asyncio.sleep(0)

    # ── small things ─────────────────────────────────────────────────────────

    def _set_deadline(self, gang: Gang) -> None:
        if gang.goal is Goal.RUN and (not gang.told or gang.resizing):
            gang.deadline_ms = self._clock.now_ms() + BIND_DEADLINE_MS
            self._deadlines.append((gang.deadline_ms, gang))

    def _look_at(self, gang: Gang) -> None:
        self._looks[gang.key] = gang
        self._wake.set()

    def _look_again(self, key: Key) -> None:
        gang = self._gangs.get(key)
        if gang is not None:
            self._looks[key] = gang


def _count(operations: Sequence[Operation], results: Sequence[Result]) -> None:
    counts: dict[tuple[str, int], int] = {}
    for operation, result in zip(operations, results, strict=True):
        pair = (operation.verb, result.status)
        counts[pair] = counts.get(pair, 0) + 1
    for (verb, status), count in counts.items():
        metrics.OPERATIONS.labels(verb, str(status)).inc(count)
