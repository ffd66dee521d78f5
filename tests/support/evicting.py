"""Full fleets with queues, for tests of evictions, in few words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shared.core.model.amounts import amount
from shared.core.model.charges import workload_resources
from shared.core.model.nouns import GpuRequest, Node, Placement, PodPlacement, PodSet, Workload
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.defragmentation.plan import DefragmentationLimits
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.moves import take
from shared.core.preemption.moves.moving import MovingState, choose_moves
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    PreemptionRules,
    SearchLimits,
    choose_victims,
)
from shared.core.quota.queue_policy import QueuePolicy
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from shared.core.scoring.cluster import Cluster
from tests.support import placing

NOW_MS = 10_000_000
PATIENT = QueuePolicy(min_runtime_seconds=0)
ANYTHING = 1 << 40


def gpus(count: int) -> tuple[int, int, int]:
    """Quota of so many GPUs, and of CPU and memory without limit."""
    return count * 1000, ANYTHING, ANYTHING


class Scene:
    """Nodes of GPUs, queues of one cohort, and what runs there."""

    def __init__(self, *nodes: Node) -> None:
        self.cluster: Cluster = placing.cluster(*nodes)
        self.tree = QuotaTree()
        self.occupants = Occupants()
        self.cohort("all")

    def queue(
        self,
        name: str,
        *,
        parent: str = "all",
        nominal: int = 0,
        weight: int = 1,
        policy: QueuePolicy = PATIENT,
    ) -> None:
        """A queue with `nominal` GPUs."""
        document = QuotaDocument(
            name=name,
            kind="queue",
            version=1,
            parent=parent,
            flavors={"a100": FlavorLimits(nominal=gpus(nominal))},
            weight=weight,
            policy=policy,
        )
        _, problem = self.tree.apply(document)
        assert not problem, problem

    def cohort(self, name: str, parent: str = "") -> None:
        """A cohort without a pool of its own."""
        document = QuotaDocument(name=name, kind="cohort", version=1, parent=parent)
        _, problem = self.tree.apply(document)
        assert not problem, problem

    def put(
        self,
        name: str,
        gpu: int | GpuRequest = 1,
        *,
        queue: str = "q",
        priority: int = 0,
        ran_ms: int = 100_000,
        node: str = "",
        pods: int = 1,
        **rest: object,
    ) -> Occupant:
        """A workload that runs, wherever the placer puts it (or on `node`, by its pool)."""
        team = str(rest.pop("team", "red"))
        work = waiting(name, gpu, queue=queue, priority=priority, pods=pods, team=team)
        choice = replace(work.spec.gpu_choice, node_pool=node)
        tied = replace(work, spec=replace(work.spec, gpu_choice=choice))
        occupant = self.try_to_put(work, ran_ms=ran_ms, tied=tied, **rest)
        assert occupant is not None
        return occupant

    def try_to_put(
        self, work: Workload, *, ran_ms: int, tied: Workload | None = None, **rest: object
    ) -> Occupant | None:
        """The same for any workload; None if it finds no place."""
        answer = place(self.cluster, placing.request(tied or work))
        if not isinstance(answer, Placement):
            return None
        self.tree.charge(work.queue, "a100", amount(answer.charge))
        occupant = Occupant(
            workload=work,
            placement=answer,
            priority=work.priority,
            attempt=1,
            version=7,
            started_at_ms=NOW_MS - ran_ms,
            **rest,  # type: ignore[arg-type]
        )
        self.occupants.put(occupant)
        return occupant

    def place(self, work: Workload) -> Occupant | None:
        """Where devices and quota allow it; it starts now. None if they do not."""
        charge = amount(workload_resources(work.spec))
        if self.tree.blocked_by(self.tree.node(work.queue), "a100", charge) is not None:
            return None
        return self.try_to_put(work, ran_ms=0)

    def leave(self, name: str) -> None:
        """It holds nothing any more."""
        occupant = self.occupants.tenants.running[name]
        self.evict(name, occupant.placement.pods)
        self.occupants.remove(name)

    def evict(self, name: str, pods: Sequence[PodPlacement]) -> None:
        """Let these pods go, and give back their quota; it stays known as an occupant."""
        occupant = self.occupants.tenants.running[name]
        self.cluster.release(occupant.team, pods, occupant.workload.spec.pod_sets)
        self.tree.charge(occupant.queue, "a100", self.charge(occupant, pods), -1)

    def come_back(self, occupant: Occupant) -> None:
        """Undo `evict` of all its pods."""
        pods = occupant.placement.pods
        self.cluster.charge(occupant.team, pods, occupant.workload.spec.pod_sets)
        self.tree.charge(occupant.queue, "a100", self.charge(occupant, pods))

    def freeze(self, name: str) -> None:
        """It may not be evicted."""
        occupant = self.occupants.tenants.running[name]
        self.occupants.put(dataclasses.replace(occupant, evictable=False))

    def cost(self, occupant: Occupant) -> int:
        """What evicting all of it costs by the usual rules."""
        rules = PreemptionRules()
        gpu_milli = max(occupant.placement.charge.gpu_milli, 1)
        rate_ms = occupant.lost_gpu_ms(NOW_MS, 1000) + rules.priority_ms * occupant.priority
        rate_ms += rules.eviction_gpu_ms * 1000 // gpu_milli
        return rate_ms * gpu_milli // 1000

    def charge(self, occupant: Occupant, pods: Sequence[PodPlacement]) -> tuple[int, int, int]:
        """What these pods of it are charged."""
        sizes = [self.occupants.tenants.size(occupant, pod) for pod in pods]
        return (
            sum(share.milli for pod in pods for share in pod.shares),
            sum(size[0] for size in sizes),
            sum(size[1] for size in sizes),
        )

    def choose(
        self,
        work: Workload,
        rules: PreemptionRules | None = None,
        limits: SearchLimits | None = None,
        *,
        owned_only: bool = False,
    ) -> EvictionPlan | NoEviction:
        """Whom to evict for `work`; nothing may be left changed."""
        before = self.cluster.digest()
        used = self._used()
        headroom = {"a100": UNBOUNDED}
        found = choose_victims(
            self.cluster,
            self.tree,
            self.occupants,
            PlacementRequest(
                workload=work, flavors=("a100",), headroom=headroom, owned_only=owned_only
            ),
            rules or PreemptionRules(),
            now_ms=NOW_MS,
            limits=limits,
        )
        assert self.cluster.digest() == before
        assert self._used() == used
        return found

    def choose_moves(
        self,
        work: Workload,
        rules: PreemptionRules | None = None,
        limits: DefragmentationLimits | None = None,
        promised: Sequence[str] = (),
        pins: tuple[int, ...] = (),
    ) -> EvictionPlan | None:
        """Who goes on elsewhere for `work`; nothing may be left changed."""
        before, used = self.cluster.digest(), self._used()
        request = PlacementRequest(
            workload=work, flavors=("a100",), headroom={"a100": UNBOUNDED}, pins=pins
        )
        state = MovingState(
            self.cluster, self.tree, self.occupants, rules or PreemptionRules(), NOW_MS
        )
        found = choose_moves(state, request, limits, promised)
        assert self.cluster.digest() == before
        assert self._used() == used
        return found

    def carry_out(self, plan: EvictionPlan, work: Workload) -> None:
        """Let the victims go, the movers go on at their new places, and `work` start."""
        for victim in plan.victims:
            self.evict(victim.workload_id, victim.pods)
        for move in plan.moves:
            mover = self.occupants.tenants.running[move.workload_id]
            assert take(self.cluster, mover.workload, move.placement.pods), move
            pods, pod_sets = mover.placement.pods, mover.workload.spec.pod_sets
            self.cluster.release(mover.team, pods, pod_sets)
            self.occupants.put(dataclasses.replace(mover, placement=move.placement))
        assert take(self.cluster, work, plan.placement.pods)
        self.tree.charge(work.queue, "a100", amount(plan.placement.charge))

    def _used(self) -> dict[tuple[str, str], list[int]]:
        return {
            (name, flavor): list(used)
            for name, node in self.tree.nodes.items()
            for flavor, used in node.used.items()
            if any(used)
        }


def waiting(
    name: str,
    gpu: int | GpuRequest = 1,
    *,
    queue: str = "q",
    priority: int = 0,
    pods: int = 1,
    pod_sets: Sequence[PodSet] = (),
    **rest: object,
) -> Workload:
    """A workload of equal pods (or of `pod_sets`)."""
    request = placing.whole(gpu) if isinstance(gpu, int) else gpu
    sets = tuple(pod_sets) or (placing.pods(request, pods),)
    work = placing.workload(*sets, **rest)  # type: ignore[arg-type]
    return replace(work, id=name, queue=queue, priority=priority)


def victims(found: EvictionPlan | NoEviction) -> list[str]:
    """Ids of those who go, in order."""
    assert isinstance(found, EvictionPlan), found
    return sorted(victim.workload_id for victim in found.victims)


def one_queue(*, nodes: int = 1, gpus: int = 2, nominal: int = 100) -> Scene:
    """One queue "q" on nodes that are a pool each by their name."""
    nodes_made = (placing.node(f"n{at}", gpus=gpus, pool=f"n{at}") for at in range(nodes))
    made = Scene(*nodes_made)
    made.queue("q", nominal=nominal)
    return made


def elastic(name: str, count: int, least: int) -> Workload:
    """`count` pods of one GPU, of which it needs `least`."""
    return waiting(
        name, pod_sets=(replace(placing.pods(placing.whole(1), count), min_count=least),)
    )
