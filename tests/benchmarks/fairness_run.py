"""A week of a fairness world in virtual time, by the real core: nomination, order, place, victims.

As in the services, the nominator has its promises and the ledger has its own quota tree; what is
refused asks for evictions, and a plan is carried out at once: the place is the preemptor's, whose
pods start when the grace of the victims is over. A victim goes on from its last checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from shared.core.amounts import amount
from shared.core.cluster import Cluster
from shared.core.decision import Refusal
from shared.core.fair_share import rank, within_nominal
from shared.core.model import (
    Gpu,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.nomination import Nominate, Nominator, Withdraw
from shared.core.pending import Pending
from shared.core.placement import place
from shared.core.preemption import (
    EvictionPlan,
    NoEviction,
    Occupant,
    Occupants,
    Rules,
    choose_victims,
)
from shared.core.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.quota import FlavorLimits, QuotaDocument, QuotaTree
from shared.core.request import PlacementRequest
from shared.core.units import GPU_MILLI, UNLIMITED, Resources
from shared.core.usage_history import GPU_SECOND, UsageHistory
from shared.core.waiting import WaitingIndex
from tests.benchmarks.fairness_world import FLAVOR, GPUS, Job, World

GRACE_MS: Final = 30_000
MIN_RUNTIME_MS: Final = 60_000
CHECKPOINT_SECONDS: Final = 900
ROOT: Final = "org"
EPOCH_MS: Final = 1_800_000_000_000

Order = Callable[["Run", str], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a run differs in: the order across queues, and whether anybody is evicted."""

    order: Order
    reclaim: bool
    owed: bool = True
    """Whether the window of nominations goes by rank, too."""


@dataclass(slots=True)
class Live:
    """A job with what is left of it."""

    job: Job
    pending: Pending
    workload: Workload
    left_ms: int
    asked_ms: int
    """When it began to wait, the last time."""
    started_ms: int = 0
    run: int = 0
    placement: Placement | None = None
    owed_since: int | None = None


@dataclass(slots=True)
class Tally:
    """What is counted while a run goes on, in GPU-milliseconds by team."""

    used: dict[str, int] = field(default_factory=dict)
    surplus: dict[str, int] = field(default_factory=dict)
    ideal: dict[str, float] = field(default_factory=dict)
    short: int = 0
    entitled: int = 0
    evictions: int = 0
    lost: int = 0
    waits: list[int] = field(default_factory=list)
    owed_waits: list[int] = field(default_factory=list)


class Run:
    """One policy over one world."""

    def __init__(self, world: World, policy: Policy, seed: int) -> None:
        self.world, self.policy = world, policy
        self.now_ms = EPOCH_MS
        self.cluster = Cluster(seed=seed)
        for number in range(world.nodes):
            self.cluster.put_node(_node(f"n{number:04}"))
        self.core, self.ledger = Nominator(), QuotaTree()
        for document in documents(world):
            self.core.apply(document)
            self.ledger.apply(document)
        self.history = UsageHistory()
        self.core.used = self.used
        self.index = WaitingIndex()
        self.index.rank = lambda one: policy.order(self, one)
        self.occupants = Occupants()
        self.live: dict[str, Live] = {}
        self.tally = Tally()
        self.running: dict[str, int] = {team.name: 0 for team in world.teams}
        self.waiting: dict[str, dict[str, Live]] = {team.name: {} for team in world.teams}
        self._events: list[tuple[int, int, str, str, int]] = []
        self._numbers = count()
        self._cooldown: dict[str, int] = {}

    def used(self, queue: str) -> int:
        """Use over time, in GPU-seconds."""
        return self.history.at(queue, self.now_ms) // GPU_SECOND

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def play(self, until_ms: int, watch: Callable[[Run, int], None]) -> Tally:
        """Let everything happen that happens before `until_ms`; `watch` sees each interval."""
        for job in self.world.jobs:
            self._at(EPOCH_MS + int(job.at * 1000), "arrives", str(job.number), 0)
        while self._events and self._events[0][0] < until_ms:
            at_ms = self._events[0][0]
            watch(self, at_ms - self.now_ms)
            self.now_ms = at_ms
            while self._events and self._events[0][0] == at_ms:
                _, _, kind, name, run = heapq.heappop(self._events)
                self._happen(kind, name, run)
            self._settle()
        watch(self, until_ms - self.now_ms)
        return self.tally

    def _at(self, at_ms: int, kind: str, name: str, run: int) -> None:
        heapq.heappush(self._events, (at_ms, next(self._numbers), kind, name, run))

    def _happen(self, kind: str, name: str, run: int) -> None:
        if kind == "arrives":
            self._arrive(self.world.jobs[int(name)])
        elif kind == "ends" and (live := self.live.get(name)) and live.run == run:
            self._release(live, self.now_ms)
            self.core.forget(live.pending)
            del self.live[name]
            self._wake()
        elif kind == "retry":
            self._wake()

    def _arrive(self, job: Job) -> None:
        workload = workload_of(job, self.now_ms)
        charge = (job.gpus * GPU_MILLI, 0, 0)
        pending = Pending(
            workload.id,
            team=job.team,
            queue=job.team,
            priority=0,
            submitted_at_ms=self.now_ms,
            request=charge,
        )
        live = Live(job, pending, workload, int(job.seconds * 1000), self.now_ms)
        self.live[workload.id] = self.waiting[job.team][workload.id] = live
        self.core.enter(pending)

    def _wake(self) -> None:
        self.index.rewind()
        self.index.wake(lambda _: True)

    # ── decisions ────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        while True:
            self.core.settle()
            for decision in self.core.take():
                if isinstance(decision, Nominate):
                    pending = decision.pending
                    key = (pending.queue, pending.request)
                    self.index.add(pending.id, key, pending.key)
                    if self.index.resting(key):
                        self.core.refused(pending, pending.nomination)
                elif isinstance(decision, Withdraw):
                    self.index.remove(decision.pending.id)
            if (workload_id := self.index.pop()) is None:
                if not self.core.unsettled:
                    return
                continue
            self._try(self.live[workload_id])

    def _try(self, live: Live) -> None:
        queue = self.ledger.node(live.job.team)
        left = queue.available(FLAVOR)
        headroom = Resources(
            gpu_milli=max(0, left[0]), cpu_milli=max(0, left[1]), memory_mib=max(0, left[2])
        )
        request = PlacementRequest(
            workload=live.workload, flavors=(FLAVOR,), headroom={FLAVOR: headroom}
        )
        if within_nominal(queue, FLAVOR, live.pending.request) and live.owed_since is None:
            live.owed_since = self.now_ms
        answer = place(self.cluster, request)
        if not isinstance(answer, Refusal):
            self._start(live, answer, self.now_ms)
            return
        if self.policy.reclaim and self._reclaim(live, request):
            return
        self.index.rest(live.pending.id, (live.job.team, live.pending.request), live.pending.key)
        self.core.refused(live.pending, live.pending.nomination)

    def _reclaim(self, live: Live, request: PlacementRequest) -> bool:
        plan = choose_victims(
            self.cluster,
            self.ledger,
            self.occupants,
            request,
            Rules(cooldown_until_ms=self._cooldown),
            now_ms=self.now_ms,
        )
        if isinstance(plan, NoEviction):
            if plan.retry_at_ms > self.now_ms:
                self._at(plan.retry_at_ms, "retry", live.pending.id, 0)
            return False
        self._carry_out(live, plan)
        return True

    def _carry_out(self, live: Live, plan: EvictionPlan) -> None:
        stops_ms = self.now_ms + GRACE_MS
        for victim in plan.victims:
            gone = self.live[victim.workload_id]
            ran_ms = stops_ms - gone.started_ms
            saved_ms = ran_ms // (CHECKPOINT_SECONDS * 1000) * CHECKPOINT_SECONDS * 1000
            self.tally.evictions += 1
            self.tally.lost += (ran_ms - saved_ms) * gone.job.gpus
            gone.left_ms -= saved_ms
            self._release(gone, stops_ms)
            self._cooldown[gone.workload.id] = self.now_ms + 300_000
            gone.asked_ms = self.now_ms
            self.core.released(gone.pending)
            self.core.enter(gone.pending)
            self.waiting[gone.job.team][gone.workload.id] = gone
        self._start(live, plan.placement, stops_ms)

    def _start(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """Charge it; its pods run from `starts_ms` on."""
        team, job = live.job.team, live.job
        if starts_ms > self.now_ms:
            self.cluster.charge(team, placement.pods, live.workload.spec.pod_sets)
        live.placement, live.started_ms = placement, starts_ms
        live.run += 1
        self.ledger.charge(team, FLAVOR, amount(placement.charge))
        self.core.placed(live.pending, FLAVOR, amount(placement.charge), live.run)
        self.history.change(team, starts_ms, job.gpus * GPU_MILLI)
        self.running[team] += job.gpus
        del self.waiting[team][live.workload.id]
        self.occupants.put(
            Occupant(
                workload=live.workload,
                placement=placement,
                priority=0,
                attempt=live.run,
                version=live.run,
                started_at_ms=starts_ms,
            )
        )
        self.tally.waits.append(starts_ms - live.asked_ms)
        if live.owed_since is not None:
            self.tally.owed_waits.append(starts_ms - live.owed_since)
            live.owed_since = None
        self._at(starts_ms + live.left_ms, "ends", live.workload.id, live.run)

    def _release(self, live: Live, stops_ms: int) -> None:
        assert live.placement is not None
        team = live.job.team
        self.cluster.release(team, live.placement.pods, live.workload.spec.pod_sets)
        self.ledger.charge(team, FLAVOR, amount(live.placement.charge), -1)
        self.history.change(team, max(stops_ms, live.started_ms), -live.job.gpus * GPU_MILLI)
        self.running[team] -= live.job.gpus
        self.occupants.remove(live.workload.id)
        live.placement = None
        live.run += 1


def muster(run: Run, workload_id: str) -> tuple[Any, ...]:
    """The order of the core."""
    pending = run.live[workload_id].pending
    node = run.ledger.node(pending.queue)
    return rank(node, (FLAVOR,), pending.request, run.used(pending.queue))


def drf(run: Run, workload_id: str) -> tuple[Any, ...]:
    """Dominant resource fairness of the moment: all that a team uses, by weight, flat."""
    team = run.live[workload_id].job.team
    document = run.ledger.node(team).document
    assert document is not None
    return (run.running[team] * 1_000_000 // document.weight,)


def fifo(run: Run, workload_id: str) -> tuple[Any, ...]:  # age alone
    """Who came first."""
    return ()


POLICIES: Final = {
    "muster": Policy(order=muster, reclaim=True),
    "muster-without-evictions": Policy(order=muster, reclaim=False),
    "drf": Policy(order=drf, reclaim=False),
    "fifo": Policy(order=fifo, reclaim=False),
}


def documents(world: World) -> list[QuotaDocument]:
    """Three levels: the organisation, departments, teams."""
    policy = QueuePolicy(
        within_queue=WithinQueue.NEVER,
        reclaim=Reclaim.ANY,
        min_runtime_seconds=MIN_RUNTIME_MS // 1000,
    )
    found = [QuotaDocument(name=ROOT, kind="cohort", version=1)]
    found += [
        QuotaDocument(name=name, kind="cohort", version=1, parent=ROOT, weight=weight)
        for name, weight in world.departments.items()
    ]
    found += [
        QuotaDocument(
            name=team.name,
            kind="queue",
            version=1,
            parent=team.department,
            team=team.name,
            weight=team.weight,
            policy=policy,
            flavors={
                FLAVOR: FlavorLimits(nominal=(team.nominal * GPU_MILLI, UNLIMITED, UNLIMITED))
            },
        )
        for team in world.teams
    ]
    return found


def workload_of(job: Job, at_ms: int) -> Workload:
    """A job as a workload: one pod, or whole nodes."""
    pod_set = PodSet(
        count=max(1, job.gpus // GPUS),
        gpu=GpuRequest(count=min(job.gpus, GPUS)),
        cpu_milli=0,
        memory_mib=0,
    )
    return Workload(
        id=f"w{job.number:08}",
        team=job.team,
        queue=job.team,
        cell=0,
        priority=0,
        spec=WorkloadSpec(
            name=f"w{job.number}",
            kind=WorkloadKind.TRAINING,
            pod_sets=(pod_set,),
            checkpoint_interval_seconds=CHECKPOINT_SECONDS,
        ),
        submitted_at_ms=at_ms,
    )


def _node(name: str) -> Node:
    gpus = tuple(Gpu(index=index, uuid=f"{name}-{index}", memory_mib=16_384) for index in range(8))
    return Node(
        name=name,
        flavor=FLAVOR,
        product="P100",
        cpu_milli=96_000,
        memory_mib=768_000,
        gpus=gpus,
    )
