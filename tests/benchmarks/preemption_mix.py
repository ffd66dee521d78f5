"""A cluster full of spot work, and surges of gangs with priority over it: who is evicted when.

Spot work is drawn from the Philly trace (1 to 8 GPUs), gangs from the Kalos trace (whole nodes of
8 GPUs); both run as long as there, up to a bound. Spot work saves its state at an interval that is
drawn for each (or never); what it did since is lost when it is evicted, and a restart costs time
besides. It goes back to the head of its line and does the rest later. A gang that comes and finds
no room has others evicted by the policy under test, or waits until another gang has ended.
Placement is Muster's for all policies, so that only who is evicted differs, but for kube-scheduler
as it is installed, which spreads. For each decision the fewest victims that were possible then are
counted too: gangs take whole nodes, and spot work is on one node each, so that the nodes with the
fewest occupants give the least number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final, Protocol

from shared.core.model.amounts import Amount, amount
from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.quota.queue_policy import QueuePolicy
from shared.core.quota.tree import EVERYTHING, FlavorLimits, QuotaDocument, QuotaTree
from shared.core.scoring.cluster import Cluster

FLAVOR: Final = "h100"
GPUS: Final = 8
SPOT_SECONDS_MAX: Final = 2 * 86_400
GANG_SECONDS_MAX: Final = 4 * 3_600
GANG_NODES_MAX: Final = 64
CHECKPOINT_SECONDS: Final = (0, 600, 1_800, 3_600)
RESTART_MS: Final = 120_000
GANG_PRIORITY: Final = 100
SURGE_MEAN: Final = 4
"""Gangs of one surge, within ten minutes."""
TRIES_MAX: Final = 32
"""Spot workloads of the line that are tried when room comes free."""

Place = Callable[[Cluster, PlacementRequest], Placement | None]


@dataclass(frozen=True, slots=True)
class Mix:
    """How much comes, of what."""

    nodes: int = 256
    days: float = 3.0
    spot_load: float = 0.7
    """Of the capacity of all days. Half of it is there at the start: gangs find all full."""
    gang_load: float = 0.3
    gang_quota: float = 0.5
    """Part of the cluster that gangs may hold at a time; more of them wait."""
    spot_priorities: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The traces: (GPUs, seconds) of spot work, (nodes, seconds) of gangs."""

    spot: Sequence[tuple[int, float]]
    gangs: Sequence[tuple[int, float]]


@dataclass(slots=True)
class Work:
    """One workload of the mix; `left_ms` is what it still has to do."""

    workload: Workload
    at_ms: int
    left_ms: int
    checkpoint_ms: int
    started_ms: int = 0
    attempt: int = 0

    @property
    def gang(self) -> bool:
        """Whether it has priority."""
        return self.workload.priority == GANG_PRIORITY


def packed(cluster: Cluster, request: PlacementRequest) -> Placement | None:
    """Where Muster puts it."""
    answer = place(cluster, request)
    return answer if isinstance(answer, Placement) else None


class Policy(Protocol):
    """Where work goes, and whom to evict."""

    def place(self, cluster: Cluster, request: PlacementRequest) -> Placement | None:
        """Charged to `cluster`, if there is room."""

    def victims(self, state: State, gang: Workload) -> tuple[list[str], bool]:
        """Ids of those who go now, and whether there is room for the whole gang then."""


@dataclass(slots=True)
class Tally:
    """What a run cost."""

    evictions: int = 0
    fewest: int = 0
    """Evictions if each decision, as things were then, had taken the fewest victims."""
    evicted_before: int = 0
    """Evictions of those that had been evicted before."""
    lost_gpu_ms: int = 0
    gang_gpus: int = 0
    """GPUs of all gangs that were placed."""
    waits_ms: list[int] = field(default_factory=list)
    spot_done_gpu_ms: int = 0
    """Work that spot workloads did and did not lose."""
    in_vain: int = 0
    """Evictions after which the gang did not fit."""


class State:
    """The cluster, and who runs on it."""

    def __init__(self, nodes: int, place: Place = packed) -> None:
        self.cluster = Cluster(seed=1)
        self._place = place
        for number in range(nodes):
            self.cluster.put_node(_node(number))
        self.tree = QuotaTree()
        self.queue("all", EVERYTHING)
        self.occupants = Occupants()
        self.running: dict[str, Work] = {}
        self.now_ms = 0

    def queue(self, name: str, nominal: Amount, parent: str = "") -> None:
        """A queue whose workloads may be evicted at once."""
        document = QuotaDocument(
            name=name,
            kind="queue",
            version=1,
            parent=parent,
            flavors={FLAVOR: FlavorLimits(nominal=nominal)},
            policy=QueuePolicy(min_runtime_seconds=0),
        )
        _, problem = self.tree.apply(document)
        assert not problem, problem

    def start(self, work: Work) -> bool:
        """Place it if it fits."""
        answer = self._place(self.cluster, request(work.workload))
        if answer is None:
            return False
        work.started_ms = self.now_ms
        work.attempt += 1
        self.running[work.workload.id] = work
        self.tree.charge(work.workload.queue, FLAVOR, amount(answer.charge))
        self.occupants.put(
            Occupant(
                workload=work.workload,
                placement=answer,
                priority=work.workload.priority,
                attempt=work.attempt,
                version=1,
                started_at_ms=self.now_ms,
                restart_ms=RESTART_MS,
            )
        )
        return True

    def stop(self, name: str) -> Occupant:
        """Take it off; what it was."""
        occupant = self.occupants.tenants.running[name]
        spec = occupant.workload.spec
        self.cluster.release(occupant.team, occupant.placement.pods, spec.pod_sets)
        self.tree.charge(occupant.queue, FLAVOR, amount(occupant.placement.charge), -1)
        self.occupants.remove(name)
        del self.running[name]
        return occupant

    def fewest(self, gang: Workload) -> int:
        """The least number of victims that empties as many nodes as `gang` has pods."""
        counts = []
        for node in self.cluster.nodes.values():
            on = self.occupants.tenants.on(node.name)
            if all(each.priority < gang.priority for each in on):
                counts.append(len(on))
        return sum(sorted(counts)[: gang.pods])


def simulate(mix: Mix, policy: Policy, recorded: Recorded, seed: int) -> Tally:
    """The whole run under one policy."""
    return _Run(mix, policy, recorded, seed).run()


class _Run:
    def __init__(self, mix: Mix, policy: Policy, recorded: Recorded, seed: int) -> None:
        self._state = State(mix.nodes, policy.place)
        self._policy = policy
        self._line: deque[Work] = deque()
        self._gangs: list[Work] = []
        self._ends: list[tuple[int, str, int]] = []
        self._gang_nodes = 0
        self._gang_nodes_max = int(mix.gang_quota * mix.nodes)
        self._tally = Tally()
        self._arrivals = arrivals(mix, recorded, seed)

    def run(self) -> Tally:
        for work in self._arrivals:
            self._until(work.at_ms)
            self._state.now_ms = work.at_ms
            if work.gang:
                self._gangs.append(work)
                self._place_gangs()
            else:
                self._line.append(work)
            self._fill()
        return self._tally

    def _until(self, now_ms: int) -> None:
        """All that ends before."""
        while self._ends and self._ends[0][0] <= now_ms:
            at_ms, name, attempt = heappop(self._ends)
            work = self._state.running.get(name)
            if work is None or work.attempt != attempt:
                continue
            self._state.now_ms = at_ms
            occupant = self._state.stop(name)
            if work.gang:
                self._gang_nodes -= work.workload.pods
                self._place_gangs()
            else:
                gpus = occupant.placement.charge.gpu_milli // 1000
                self._tally.spot_done_gpu_ms += gpus * work.left_ms
            self._fill()

    def _place_gangs(self) -> None:
        """Those that wait, in order; who does not fit lets the next try."""
        waiting, self._gangs = self._gangs, []
        for work in waiting:
            if work.workload.pods + self._gang_nodes > self._gang_nodes_max:
                self._gangs.append(work)
            elif self._start(work) or self._make_room(work):
                self._gang_nodes += work.workload.pods
            else:
                self._gangs.append(work)

    def _make_room(self, work: Work) -> bool:
        victims, whole = self._policy.victims(self._state, work.workload)
        if victims:
            self._tally.fewest += self._state.fewest(work.workload)
        for name in victims:
            self._evict(name)
        if not whole:
            self._tally.in_vain += len(victims)
            return False
        started = self._start(work)
        assert started, work.workload.id
        return True

    def _evict(self, name: str) -> None:
        state, tally = self._state, self._tally
        work = state.running[name]
        lost = state.occupants.tenants.running[name].lost_gpu_ms(state.now_ms)
        state.stop(name)
        tally.evictions += 1
        tally.evicted_before += work.attempt > 1
        tally.lost_gpu_ms += lost
        ran_ms = state.now_ms - work.started_ms
        kept_ms = ran_ms // work.checkpoint_ms * work.checkpoint_ms if work.checkpoint_ms else 0
        work.left_ms -= kept_ms
        tally.spot_done_gpu_ms += work.workload.spec.pod_sets[0].gpu.count * kept_ms
        self._line.appendleft(work)

    def _start(self, work: Work) -> bool:
        if not self._state.start(work):
            return False
        again_ms = RESTART_MS if work.attempt > 1 else 0
        end_ms = self._state.now_ms + work.left_ms + again_ms
        heappush(self._ends, (end_ms, work.workload.id, work.attempt))
        if work.gang:
            tally = self._tally
            tally.gang_gpus += GPUS * work.workload.pods
            tally.waits_ms.append(self._state.now_ms - work.at_ms)
        return True

    def _fill(self) -> None:
        """Spot work of the line, in order; a size that does not fit is not tried again."""
        refused: set[int] = set()
        skipped: list[Work] = []
        while self._line and len(skipped) < TRIES_MAX:
            work = self._line.popleft()
            size = work.workload.spec.pod_sets[0].gpu.count
            if size in refused or not self._start(work):
                refused.add(size)
                skipped.append(work)
                if 1 in refused:
                    break
        self._line.extendleft(reversed(skipped))


def arrivals(mix: Mix, recorded: Recorded, seed: int) -> list[Work]:
    """Everything that comes, in order."""
    draw = Random(seed)
    horizon_ms = int(mix.days * 86_400_000)
    capacity = GPUS * mix.nodes * horizon_ms
    small = [
        (gpus, min(seconds, SPOT_SECONDS_MAX)) for gpus, seconds in recorded.spot if gpus <= GPUS
    ]
    large = [
        (nodes, min(seconds, GANG_SECONDS_MAX))
        for nodes, seconds in recorded.gangs
        if nodes <= min(GANG_NODES_MAX, mix.nodes // 2)
    ]
    found: list[Work] = []
    left = mix.spot_load * capacity
    while left > 0:
        gpus, seconds = draw.choice(small)
        # Half is there from the start, so that the cluster is full when gangs come.
        at_ms = 0 if draw.random() < 0.5 else draw.randrange(horizon_ms)
        found.append(_spot(len(found), (gpus, seconds), at_ms, draw, mix))
        left -= gpus * seconds * 1000
    left = mix.gang_load * capacity
    while left > 0:
        surge_ms = draw.randrange(horizon_ms)
        for _ in range(1 + int(draw.expovariate(1 / (SURGE_MEAN - 1)))):
            nodes, seconds = draw.choice(large)
            at_ms = surge_ms + draw.randrange(600_000)
            found.append(_gang(len(found), nodes, seconds, at_ms))
            left -= nodes * GPUS * seconds * 1000
    found.sort(key=lambda work: (work.at_ms, work.workload.id))
    return found


def _spot(number: int, job: tuple[int, float], at_ms: int, draw: Random, mix: Mix) -> Work:
    gpus, seconds = job
    checkpoint = draw.choice(CHECKPOINT_SECONDS)
    priority = draw.choice(mix.spot_priorities)
    workload = workload_of(
        f"s{number:06}", gpus, priority=priority, at_ms=at_ms, checkpoint_seconds=checkpoint
    )
    return Work(workload, at_ms, max(int(seconds * 1000), 1), checkpoint * 1000)


def _gang(number: int, nodes: int, seconds: float, at_ms: int) -> Work:
    workload = workload_of(f"g{number:06}", GPUS, nodes, priority=GANG_PRIORITY, at_ms=at_ms)
    return Work(workload, at_ms, max(int(seconds * 1000), 1), 0)


def workload_of(
    name: str,
    gpus: int,
    pods: int = 1,
    *,
    priority: int = 0,
    at_ms: int = 0,
    checkpoint_seconds: int = 0,
    queue: str = "all",
) -> Workload:
    """`pods` equal pods of `gpus` whole GPUs each."""
    pod_set = PodSet(
        count=pods,
        gpu=GpuRequest(count=gpus),
        cpu_milli=gpus * 10_000,
        memory_mib=gpus * 100_000,
    )
    return Workload(
        id=name,
        team="team",
        queue=queue,
        cell=0,
        priority=priority,
        submitted_at_ms=at_ms,
        spec=WorkloadSpec(
            name=name,
            kind=WorkloadKind.TRAINING,
            pod_sets=(pod_set,),
            checkpoint_interval_seconds=checkpoint_seconds or None,
        ),
    )


def request(workload: Workload) -> PlacementRequest:
    """It may go anywhere."""
    return PlacementRequest(workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED})


def _node(number: int) -> Node:
    return Node(
        name=f"n{number:05}",
        flavor=FLAVOR,
        product="NVIDIA-H100-80GB-HBM3",
        cpu_milli=GPUS * 12_000,
        memory_mib=GPUS * 128_000,
        gpus=tuple(
            Gpu(index=index, uuid=f"GPU-{number}-{index}", memory_mib=81_559)
            for index in range(GPUS)
        ),
        rack=f"r{number // 16}",
        zone="z",
    )
