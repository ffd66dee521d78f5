"""Whom other schedulers evict, from their documents; and Muster, by the same interface.

kube-scheduler (`DefaultPreemption`): for each pod, on each node, all pods of lower priority are
thought away, then as many as possible are kept, the highest priority and the longest running
first. Of the nodes the one whose highest victim has the lowest priority, then the least sum of
priorities, the fewest victims, the latest start of the highest victim. A gang is one pod after the
other, each evicting for itself; if the last finds no place, the others went in vain.
KAI (`preempt`): victims in order (lowest priority, then the youngest) are added until the whole
gang fits in a simulation; then those without whom it fits as well are left out.
kube-scheduler as it is installed besides gives a pod the node of which the least is allocated
(`NodeResourcesFit`, LeastAllocated, over CPU and memory); KAI packs, as Muster does.
Source: kubernetes/kubernetes pkg/scheduler/framework/{preemption,plugins/noderesources},
KAI-Scheduler docs/developer.
"""

from __future__ import annotations

from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.statement import Statement
from shared.core.model.demand import gang_of
from shared.core.model.nouns import Placement, Workload
from shared.core.placement.place import PlacementRequest, placement_of
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.rules import WHOLE_MS
from shared.core.preemption.victims.choose import EvictionPlan, PreemptionRules, choose_victims
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.devices import whole_shares
from tests.benchmarks.preemption_mix import Place, State, packed, request

SERVICE_RULES: Final = PreemptionRules(whole_ms=WHOLE_MS)
"""As the service preemption has them; cooldowns and loss budgets are nobody's here."""


class Muster:
    """The core as the services call it; what an eviction costs besides may be another."""

    def __init__(self, rules: PreemptionRules | None = None) -> None:
        self.place = packed
        self._rules = rules or SERVICE_RULES

    def victims(self, state: State, gang: Workload) -> tuple[list[str], bool]:
        """The cheapest set, or nobody."""
        plan = choose_victims(
            state.cluster,
            state.tree,
            state.occupants,
            request(gang),
            self._rules,
            now_ms=state.now_ms,
        )
        if not isinstance(plan, EvictionPlan):
            return [], False
        return [victim.workload_id for victim in plan.victims], True


class Kubernetes:
    """kube-scheduler's rule, wherever work is placed."""

    def __init__(self, place: Place = packed) -> None:
        self.place = place

    def victims(self, state: State, gang: Workload) -> tuple[list[str], bool]:
        """Node by node."""
        (pod_set,) = gang.spec.pod_sets
        free = {node.name: node.free_count for node in state.cluster.nodes.values()}
        chosen: list[str] = []
        gone: set[str] = set()
        for _ in range(pod_set.count):
            node = self._node(state, free, pod_set.gpu.count, gang.priority, gone)
            if node is None:
                return chosen, False
            name, victims = node
            for victim in victims:
                chosen.append(victim.id)
                gone.add(victim.id)
                for pod in victim.placement.pods:
                    free[pod.node] += len(pod.shares)
            free[name] -= pod_set.gpu.count
        return chosen, True

    def _node(
        self, state: State, free: dict[str, int], gpus: int, priority: int, gone: set[str]
    ) -> tuple[str, list[Occupant]] | None:
        ready = [name for name, count in free.items() if count >= gpus]
        if ready:
            return min(ready, key=lambda name: (free[name], name)), []
        best: tuple[tuple[int, int, int, int, str], list[Occupant]] | None = None
        for node in state.cluster.nodes.values():
            lower = [
                each
                for each in state.occupants.tenants.on(node.name)
                if each.priority < priority and each.id not in gone
            ]
            victims = self._victims(state, node, lower, gpus - free[node.name])
            if victims:
                top = max(victim.priority for victim in victims)
                starts = [each.started_at_ms for each in victims if each.priority == top]
                order = (
                    top,
                    sum(each.priority + (1 << 31) for each in victims),
                    len(victims),
                    -min(starts),
                    node.name,
                )
                if best is None or order < best[0]:
                    best = order, victims
        return None if best is None else (best[0][-1], best[1])

    @staticmethod
    def _victims(
        state: State, node: NodeState, lower: list[Occupant], lacking: int
    ) -> list[Occupant]:
        """Those of `lower` who must go for `lacking` more GPUs."""
        tenants = state.occupants.tenants
        held = {
            each.id: sum(len(pod.shares) for pod in tenants.pods_on(each, node.name))
            for each in lower
        }
        spare = sum(held.values()) - lacking
        if spare < 0:
            return []
        victims = []
        for each in sorted(lower, key=lambda one: (-one.priority, one.started_at_ms, one.id)):
            if held[each.id] <= spare:
                spare -= held[each.id]
            else:
                victims.append(each)
        return victims


class Incremental:
    """KAI's way."""

    def __init__(self) -> None:
        self.place = packed

    def victims(self, state: State, gang: Workload) -> tuple[list[str], bool]:
        """The first set that suffices, in order, without the superfluous."""
        (pod_set,) = gang.spec.pod_sets
        gpus = pod_set.gpu.count
        free = {node.name: node.free_count for node in state.cluster.nodes.values()}
        room = sum(count // gpus for count in free.values())
        lower = [
            each
            for each in state.occupants.tenants.running.values()
            if each.priority < gang.priority
        ]
        lower.sort(key=lambda each: (each.priority, -each.started_at_ms, each.id))
        chosen: list[Occupant] = []
        for each in lower:
            if room >= pod_set.count:
                break
            room += _move(free, each, gpus, 1)
            chosen.append(each)
        if room < pod_set.count:
            return [], False
        for each in list(reversed(chosen)):
            change = _move(free, each, gpus, -1)
            if room + change >= pod_set.count:
                room += change
                chosen.remove(each)
            else:
                _move(free, each, gpus, 1)
        return [each.id for each in chosen], True


def least_allocated(cluster: Cluster, request: PlacementRequest) -> Placement | None:
    """The node with the most CPU and memory left for a single pod; gangs take free nodes."""
    gang = gang_of(request.workload)
    if gang.pods > 1:
        return packed(cluster, request)
    (demand,) = gang.demands
    nodes = [node for node in cluster.nodes.values() if node.free_count >= demand.gpus]
    if not nodes:
        return None
    node = max(nodes, key=lambda each: (_left(each), each.name))
    statement = Statement(cluster, gang.team)
    statement.charge(demand, node, whole_shares(node, demand))
    return placement_of(request.flavors[0], statement)


def _left(node: NodeState) -> float:
    """Mean part of CPU and memory that nobody asked for."""
    assert node.inventory
    cpu = node.free_cpu_milli / node.inventory.cpu_milli
    return (cpu + node.free_memory_mib / node.inventory.memory_mib) / 2


def _move(free: dict[str, int], occupant: Occupant, gpus: int, sign: int) -> int:
    """Give back (or with -1 take again) what it holds; by how many pods the room changes."""
    change = 0
    for pod in occupant.placement.pods:
        change -= free[pod.node] // gpus
        free[pod.node] += sign * len(pod.shares)
        change += free[pod.node] // gpus
    return change
