"""The search for moves in one flavor: what core/preemption/moves/moving.py tells, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.model.charges import least_amount
from shared.core.model.demand import gang_of
from shared.core.model.request import PlacementRequest
from shared.core.model.units import UNBOUNDED
from shared.core.model.value import replace as changed
from shared.core.placement.feasibility import permitted
from shared.core.placement.resize import charge_of
from shared.core.preemption.defragmentation import (
    DefragmentationLimits,
    Move,
    Plan,
    Running,
    defragment,
)
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.plan import EvictionPlan, Moved, Rule, Victim
from shared.core.preemption.eligibility.rules import EligibilityJudge, PreemptionRules, policy_of
from shared.core.preemption.eligibility.screen import Screen
from shared.core.preemption.victims import Scope, SimulatedRemoval, victim_of
from shared.core.quota.tree import QuotaTree
from shared.core.scoring import Cluster

NODES_MAX: Final = 256
"""Nodes with occupants that may go or be moved: those that could be emptiest."""
GONE_MAX: Final = 512
"""What may be evicted is thought gone, as far as so many."""
TRIES_MAX: Final = 8
"""What might stay after all, one by one."""


@dataclass(frozen=True, slots=True)
class MovingState:
    """All that a plan is made on; left as it was."""

    cluster: Cluster
    tree: QuotaTree
    occupants: Occupants
    rules: PreemptionRules
    now_ms: int


class MovingSearch:
    """One gang in one flavor."""

    def __init__(self, state: MovingState, flavor: str, request: PlacementRequest) -> None:
        workload = request.workload
        self._state, self._request = state, request
        charge = least_amount(workload.spec)
        self._judge = judge = EligibilityJudge(
            state.tree,
            state.rules,
            workload,
            charge,
            flavor=flavor,
            now_ms=state.now_ms,
            owned_only=request.owned_only,
        )
        self._screen = Screen(state.occupants, judge)
        team = workload.team
        self._leavers = SimulatedRemoval(
            Scope(state.cluster, state.occupants, judge, self._screen, team)
        )
        self._nodes = self._emptiest()

    def plan(self, limits: DefragmentationLimits) -> EvictionPlan | None:
        """See the module; cluster and tree are as they were after it."""
        leavers, running = self._leavers, self._state.occupants.tenants.running
        here = (running[name] for name in self._screen.ids() if running[name].nodes <= self._nodes)
        for one in islice((one for one in here if leavers.admits(one, _all(one))), GONE_MAX):
            self._go(one)
        try:
            found = None if self._short() else self._moves(limits)
            return self._told(self._fewer(found, limits)) if found is not None else None
        finally:
            for name in list(leavers.out):
                self._come_back(running[name])

    def _short(self) -> bool:
        """Whether quota allows it no room even so."""
        return self._judge.short(self._judge.charge) is not None

    def _fewer(self, found: Plan, limits: DefragmentationLimits) -> Plan:
        """With fewer gone, if no more moves do then; the fewest moves cared for nothing else.

        Of those that are not on the nodes of the gang, none goes, or the cheapest, twice as many
        each time; then some of the rest may stay one by one.
        """
        running, nodes = self._state.occupants.tenants.running, _nodes_of(found)
        out = sorted((running[name] for name in self._leavers.out), key=self._dearest)
        others = [one for one in out if not one.nodes & nodes]
        for gone in (0, *(1 << at for at in range(GONE_MAX.bit_length()))):
            again = self._with(others[: max(len(others) - gone, 0)], found, limits)
            if again is not None:
                found = again
                break
        for one in [one for one in out if one.id in self._leavers.out][:TRIES_MAX]:
            found = self._with([one], found, limits) or found
        return found

    def _with(
        self, some: list[Occupant], found: Plan, limits: DefragmentationLimits
    ) -> Plan | None:
        """With these back, as far as quota allows; None, and they are gone, if it needs them."""
        back = [one for one in some if self._stays(one)]
        again = self._moves(limits) if back else None
        if again is not None and len(again.moves) <= len(found.moves):
            return again
        for one in back:
            self._go(one)
        return None

    def _dearest(self, one: Occupant) -> tuple[int, str]:
        return -self._leavers.cost(one, self._leavers.out[one.id]), one.id

    def _stays(self, one: Occupant) -> bool:
        """Whether quota allows that; then it is back."""
        self._come_back(one)
        if self._short():
            self._go(one)
        return one.id not in self._leavers.out

    def _emptiest(self) -> frozenset[str]:
        """The nodes that have most GPUs free once all that may go have gone. O(nodes).

        Of the flavor, as each that goes gives back quota; first those that it may use.
        """
        flavor, nodes = self._judge.flavor, self._state.cluster.nodes.values()
        found = [one for one in nodes if one.node_class and one.node_class.key.flavor == flavor]
        if len(found) > NODES_MAX:
            node_classes, gone = self._node_classes(), self._screen.gpus_by_node()

            def order(one: NodeState) -> tuple[bool, int, int]:
                return (
                    one.node_class not in node_classes,
                    -one.free_count - gone.get(one.name, 0),
                    one.rank,
                )

            found.sort(key=order)
        return frozenset(one.name for one in found[:NODES_MAX])

    def _node_classes(self) -> frozenset[CapacityIndex]:
        cluster, flavor = self._state.cluster, self._judge.flavor
        gang = gang_of(self._request.workload, self._request.pins)
        node_classes = (
            sum(permitted(cluster, gang, demand, flavor), ()) for demand in gang.demands
        )
        return frozenset[CapacityIndex]().union(*node_classes)

    def _moves(self, limits: DefragmentationLimits) -> Plan | None:
        flavor = self._judge.flavor
        request = replace(self._request, flavors=(flavor,), headroom={flavor: UNBOUNDED})
        found = defragment(self._state.cluster, self._staying(), request, limits)
        return found if isinstance(found, Plan) else None

    def _staying(self) -> Iterator[Running]:
        now_ms, out = self._state.now_ms, self._leavers.out
        tenants = self._state.occupants.tenants
        here = {one.id: one for node in sorted(self._nodes) for one in tenants.on(node)}
        for one in here.values():
            if one.id not in out and self._may_move(one):
                yield Running(
                    workload=one.workload,
                    placement=one.placement,
                    cost=one.lost_gpu_ms(now_ms),
                )

    def _may_move(self, one: Occupant) -> bool:
        """As if it were beyond its quota; and smaller than what starts, and no more important."""
        judge, rules, now_ms = self._judge, self._state.rules, self._state.now_ms
        queue = self._state.tree.node(one.queue)
        charge = one.placement.charge
        return (
            one.evictable
            and not one.protected
            and one.id not in rules.promised
            and one.priority <= judge.preemptor.priority
            and charge.gpu_milli < judge.charge[0]
            and one.started_at_ms + policy_of(queue).min_runtime_seconds * 1000 <= now_ms
            and rules.cooldown_until_ms.get(one.id, 0) <= now_ms
        )

    def _told(self, found: Plan) -> EvictionPlan | None:
        rules = self._leavers.settle()
        return self._evictions(found, rules) if rules is not None else None

    def _evictions(self, found: Plan, rules: dict[str, Rule]) -> EvictionPlan:
        workload = self._request.workload
        running = self._state.occupants.tenants.running
        return EvictionPlan(
            workload_id=workload.id,
            flavor=found.placement.flavor,
            victims=tuple(
                self._victim(running[name], rule) for name, rule in sorted(rules.items())
            ),
            placement=found.placement,
            moves=tuple(self._moved(running[move.workload_id], move) for move in found.moves),
        )

    def _victim(self, one: Occupant, rule: Rule) -> Victim:
        ranks = self._leavers.out[one.id]
        cost = self._leavers.cost(one, ranks)
        return victim_of(one, ranks, rule, now_ms=self._state.now_ms, cost_gpu_ms=cost)

    def _moved(self, one: Occupant, move: Move) -> Moved:
        charge = charge_of(one.workload, move.to_pods)
        return Moved(
            workload_id=one.id,
            version=one.version,
            attempt=one.attempt,
            placement=changed(one.placement, pods=move.to_pods, charge=charge),
            lost_gpu_ms=one.lost_gpu_ms(self._state.now_ms),
        )

    def _go(self, one: Occupant) -> None:
        pods, pod_sets = one.placement.pods, one.workload.spec.pod_sets
        self._state.cluster.release(one.team, pods, pod_sets)
        self._leavers.set(one, _all(one))

    def _come_back(self, one: Occupant) -> None:
        pods, pod_sets = one.placement.pods, one.workload.spec.pod_sets
        self._state.cluster.charge(one.team, pods, pod_sets)
        self._leavers.set(one, frozenset())


def _nodes_of(plan: Plan) -> set[str]:
    return {pod.node for pod in plan.placement.pods}


def _all(one: Occupant) -> frozenset[int]:
    return frozenset(pod.rank for pod in one.placement.pods)
