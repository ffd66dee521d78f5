"""FIFO, greedy skip and EASY: who runs next on equal nodes, all with the same best fit.

A job below one node goes where fewest GPUs are left over; a gang takes wholly free nodes. Queues
are in order of arrival.
- FIFO: nobody passes the head.
- Greedy skip: whoever fits starts. What kube-scheduler, Volcano and Kueue's BestEffortFIFO do.
- EASY (Lifka 1995; with a pinned node set): the first gang that waits gets the
  nodes that will be wholly free first, by what users expect; others use them only if they end
  before the last of these is free. Work past its expected end is taken to end at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from tests.benchmarks.clos import GPUS
from tests.benchmarks.queueing_world import Job, World


class Hosts:
    """Free GPUs by node, and when each will be wholly free if users are right."""

    def __init__(self, count: int) -> None:
        self.free = [GPUS] * count
        self.ends: list[dict[int, float]] = [{} for _ in range(count)]
        """By node: the expected end of each job on it."""
        self.held: dict[int, list[int]] = {}
        self._by_free: list[set[int]] = [set() for _ in range(GPUS)]
        self._by_free.append(set(range(count)))

    def start(self, job: Job, now: float, pinned: set[int], *, may: bool) -> bool:
        """Place `job`; False, and nothing changed, if it does not fit.

        Of equals it takes `pinned` nodes, which few may use, or if it may not, none of them.
        """
        nodes = self._nodes(job, pinned, may=may)
        if not nodes:
            return False
        for node in nodes:
            self._set_free(node, self.free[node] - job.gpus)
            self.ends[node][job.number] = now + job.expected
        self.held[job.number] = nodes
        return True

    def end(self, job: Job) -> None:
        """Give back what `start` gave."""
        for node in self.held.pop(job.number):
            self._set_free(node, self.free[node] + job.gpus)
            del self.ends[node][job.number]

    def whole_at(self, node: int, now: float) -> float:
        """When the whole node will be free."""
        return max(max(self.ends[node].values(), default=now), now)

    def _nodes(self, job: Job, pinned: set[int], *, may: bool) -> list[int]:
        for free in range(job.gpus, GPUS + 1):
            nodes = sorted(self._by_free[free] - pinned)
            if may and pinned:
                nodes = sorted(self._by_free[free] & pinned) + nodes
            if len(nodes) >= job.hosts:
                return nodes[: job.hosts]
        return []

    def _set_free(self, node: int, free: int) -> None:
        self._by_free[self.free[node]].discard(node)
        self.free[node] = free
        self._by_free[free].add(node)


class Fifo:
    """Nobody passes the head."""

    def __init__(self, world: World) -> None:
        """`world` tells the number of nodes."""
        self._hosts = Hosts(world.nodes)
        self._queue: dict[int, Job] = {}

    def step(self, now: float, ended: Sequence[Job], arrived: Sequence[Job]) -> list[Job]:
        """In order, until one does not fit."""
        for job in ended:
            self._hosts.end(job)
        self._queue |= {job.number: job for job in arrived}
        started = []
        for job in self._queue.values():
            if not self._hosts.start(job, now, set(), may=True):
                break
            started.append(job)
        for job in started:
            del self._queue[job.number]
        return started


class GreedySkip:
    """Whoever fits starts; equal requests are tried once."""

    def __init__(self, world: World) -> None:
        """`world` tells the number of nodes."""
        self._hosts = Hosts(world.nodes)
        self._queue: dict[int, Job] = {}

    def step(self, now: float, ended: Sequence[Job], arrived: Sequence[Job]) -> list[Job]:
        """All that wait when something ended, else only who came."""
        for job in ended:
            self._hosts.end(job)
        self._queue |= {job.number: job for job in arrived}
        started = list(self._started(now, list(self._queue.values() if ended else arrived)))
        for job in started:
            del self._queue[job.number]
        return started

    def _started(self, now: float, tried: Sequence[Job]) -> Iterator[Job]:
        refused = set()
        for job in tried:
            if (job.gpus, job.hosts) in refused:
                continue
            if self._hosts.start(job, now, set(), may=True):
                yield job
            else:
                refused.add((job.gpus, job.hosts))


class Easy:
    """The first gang that waits has nodes pinned; the rest passes it if it does not delay it."""

    def __init__(self, world: World) -> None:
        """`world` tells the number of nodes."""
        self._hosts = Hosts(world.nodes)
        self._queue: dict[int, Job] = {}
        self._gangs: dict[int, Job] = {}
        """Those of `_queue` that want several nodes."""
        self._head: Job | None = None
        self._pinned: set[int] = set()
        self._pinned_until = inf

    def step(self, now: float, ended: Sequence[Job], arrived: Sequence[Job]) -> list[Job]:
        """Gangs at the head first; then all that wait when something changed, else who came."""
        for job in ended:
            self._hosts.end(job)
        self._queue |= {job.number: job for job in arrived}
        gangs = {job.number: job for job in arrived if job.hosts > 1}
        self._gangs |= gangs
        started = list(self._heads(now)) if ended or (gangs and self._head is None) else []
        again = bool(ended or started)
        for job in list(self._queue.values() if again else arrived):
            if job.number in self._queue and self._start(job, now):
                started.append(job)
        return started

    def _heads(self, now: float) -> Iterator[Job]:
        """Start gangs in order until one must wait, and pin its nodes."""
        self._head, self._pinned, self._pinned_until = None, set(), inf
        while self._gangs:
            head = next(iter(self._gangs.values()))
            if not self._start(head, now):
                self._pin(head, now)
                return
            yield head

    def _pin(self, head: Job, now: float) -> None:
        hosts = self._hosts
        order = sorted((hosts.whole_at(node, now), node) for node in range(len(hosts.free)))
        chosen = order[: head.hosts]
        self._head, self._pinned = head, {node for _, node in chosen}
        self._pinned_until = chosen[-1][0]

    def _start(self, job: Job, now: float) -> bool:
        may = job is self._head or now + job.expected <= self._pinned_until
        if not self._hosts.start(job, now, self._pinned, may=may):
            return False
        del self._queue[job.number]
        self._gangs.pop(job.number, None)
        if job is self._head:
            self._head, self._pinned, self._pinned_until = None, set(), inf
        return True
