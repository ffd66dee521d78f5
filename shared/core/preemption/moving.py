"""Moves beside evictions: who may not be evicted goes on elsewhere, so that a gang finds room.

Small work within its quota on the nodes of those who borrow keeps them from ever being whole: no
eviction helps then (core/preemption/choose.py says no). So, for who is owed room or had no more
than its part lately, in each permitted flavor:

1. All who may be evicted by the rules are gone, the cheapest first.
2. The fewest moves of those who stay let the gang in (core/defragment); they go to what is free.
3. Who was thought gone comes back, the dearest first, unless the gang, a mover or quota needs it.

Nobody is moved who could not be evicted were he beyond his quota (minimum run time, cooldown, loss
budget, protected classes), and never more GPUs than start. Everything is tried on the cluster and
on the tree themselves, and taken back. Source: consolidation (KAI); placement.md 3.6; ADR 40.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from shared.core.charges import least_amount
from shared.core.cluster import Cluster, pod_size
from shared.core.defragment.defragment import Limits as MoveLimits
from shared.core.defragment.defragment import Plan, Running, defragment
from shared.core.defragment.rehearsal import Move, Rehearsal, takes
from shared.core.preemption.leavers import Leavers, Scope
from shared.core.preemption.occupant import Occupant
from shared.core.preemption.occupants import Occupants
from shared.core.preemption.plan import EvictionPlan, Moved, Rule, Victim
from shared.core.preemption.rules import Judge, Rules, policy_of
from shared.core.preemption.screen import Screen
from shared.core.preemption.telling import victim_of
from shared.core.quota.fair_share import arrears, borrows
from shared.core.quota.tree import QuotaTree
from shared.core.request import PlacementRequest
from shared.core.resize import charge_of
from shared.core.tenants import Tenants
from shared.core.units import UNBOUNDED
from shared.core.value import replace as changed

NODES_MAX: Final = 256
"""Nodes whose occupants may go or be moved: those that could be emptiest."""
TRIES_MAX: Final = 8
"""Who might stay after all, one by one."""
LIMITS: Final = MoveLimits(moves_max=8, steps_max=400)


@dataclass(frozen=True, slots=True)
class State:
    """All that a plan is made on; left as it was."""

    cluster: Cluster
    tree: QuotaTree
    occupants: Occupants
    rules: Rules
    now_ms: int


def choose_moves(
    state: State,
    request: PlacementRequest,
    limits: MoveLimits = LIMITS,
    promised: Collection[str] = (),
) -> EvictionPlan | None:
    """Moves, and evictions beside them, that let `request` start; None if there is no such plan.

    `request` is as for `choose_victims`, which is to be asked first; `promised` are nodes that are
    pinned for it, and will be no more once it starts, so movers may go there. O(nodes), and as
    many questions to the placer as `limits` allow: not for every decision.
    """
    if not may_ask(state.tree, request):
        return None
    with _open(state.cluster, promised):
        plans = (_Attempt(state, flavor, request).plan(limits) for flavor in request.flavors)
        return next((one for one in plans if one is not None and _worth_it(state, one)), None)


@contextmanager
def _open(cluster: Cluster, nodes: Collection[str]) -> Iterator[None]:
    """These nodes pinned for nobody."""
    pins = {name: cluster.nodes[name].pin for name in nodes if name in cluster.nodes}
    for name in pins:
        cluster.pin(name, 0)
    try:
        yield
    finally:
        for name, pin in pins.items():
            cluster.pin(name, pin)


def may_ask(tree: QuotaTree, request: PlacementRequest) -> bool:
    """Whether others are moved for it: it is owed, or had no more than its part lately."""
    queue, charge = tree.node(request.workload.queue), least_amount(request.workload.spec)
    if not borrows(queue, request.flavors, charge):
        return True
    _, (debt, *_), _ = arrears(queue, request.flavors, charge)
    return debt <= 0


def _worth_it(state: State, plan: EvictionPlan) -> bool:
    """No more GPUs are disturbed by moves than start, and no team loses more than it may."""
    running, left = state.occupants.tenants.running, dict(state.rules.loss_left_gpu_ms)
    moved = sum(running[one.workload_id].placement.charge.gpu_milli for one in plan.moves)
    for name, lost in plan.losses:
        team = running[name].team
        if team in left:
            left[team] -= lost
    return moved <= plan.placement.charge.gpu_milli and all(rest >= 0 for rest in left.values())


class _Attempt:
    """One gang in one flavor."""

    def __init__(self, state: State, flavor: str, request: PlacementRequest) -> None:
        workload = request.workload
        self._state, self._request = state, request
        charge = least_amount(workload.spec)
        self._judge = judge = Judge(
            state.tree, state.rules, workload, charge, flavor=flavor, now_ms=state.now_ms
        )
        self._screen = Screen(state.occupants, judge)
        team = workload.team
        self._leavers = Leavers(Scope(state.cluster, state.occupants, judge, self._screen, team))
        self._nodes = self._emptiest()

    def plan(self, limits: MoveLimits) -> EvictionPlan | None:
        """See the module; cluster and tree are as they were after it."""
        leavers, running = self._leavers, self._state.occupants.tenants.running
        for name in self._screen.ids():
            occupant = running[name]
            if occupant.nodes <= self._nodes and leavers.admits(occupant, _all(occupant)):
                self._go(occupant)
        try:
            found = None if self._short() else self._moves(limits)
            return self._told(self._fewer(found, limits)) if found is not None else None
        finally:
            for name in list(leavers.out):
                self._come_back(running[name])

    def _short(self) -> bool:
        """Whether quota allows it no room even so."""
        return self._judge.short(self._judge.charge) is not None

    def _fewer(self, found: Plan, limits: MoveLimits) -> Plan:
        """With fewer gone, if no more moves do then; the fewest moves cared for nothing else.

        Those who are not on the nodes of the gang, all at once; if that fails some one by one.
        """
        running, nodes = self._state.occupants.tenants.running, _nodes_of(found)
        out = [running[name] for name in self._leavers.out]
        others = [one for one in out if not one.nodes & nodes]
        if others and (again := self._with(others, found, limits)) is not None:
            return again
        for one in sorted(out, key=self._dearest)[:TRIES_MAX]:
            found = self._with([one], found, limits) or found
        return found

    def _with(self, some: list[Occupant], found: Plan, limits: MoveLimits) -> Plan | None:
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
        """The nodes that have most GPUs free once all that may go have gone. O(nodes)."""
        nodes = self._state.cluster.nodes
        if len(nodes) <= NODES_MAX:
            return frozenset(nodes)
        gone = self._screen.gpus_by_node()
        order = sorted(
            nodes.values(), key=lambda one: (-one.free_count - gone.get(one.name, 0), one.rank)
        )
        return frozenset(one.name for one in order[:NODES_MAX])

    def _moves(self, limits: MoveLimits) -> Plan | None:
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
        """As if it were beyond its quota; and smaller than what starts."""
        judge, rules, now_ms = self._judge, self._state.rules, self._state.now_ms
        queue = self._state.tree.node(one.queue)
        charge = one.placement.charge
        return (
            one.evictable
            and not one.protected
            and one.id not in rules.promised
            and charge.gpu_milli < judge.charge[0]
            and one.started_at_ms + policy_of(queue).min_runtime_seconds * 1000 <= now_ms
            and rules.cooldown_until_ms.get(one.id, 0) <= now_ms
        )

    def _told(self, found: Plan) -> EvictionPlan | None:
        workload = self._request.workload
        self._keep_the_rest(found)
        rules = self._leavers.settle()
        if rules is None:
            return None
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

    def _keep_the_rest(self, found: Plan) -> None:
        """Only those stay gone whose devices or quota are needed."""
        cluster, running = self._state.cluster, self._state.occupants.tenants.running
        movers = Tenants(
            Running(workload=one.workload, placement=one.placement)
            for one in (running[move.workload_id] for move in found.moves)
        )
        rehearsal = Rehearsal(cluster, movers)
        assert all(rehearsal.repeat(move) for move in found.moves)
        workload = self._request.workload
        cluster.charge(workload.team, found.placement.pods, workload.spec.pod_sets)
        order = sorted((running[name] for name in self._leavers.out), key=self._dearest)
        back = [one for one in order if self._returns(one)]
        for one in back:
            cluster.release(one.team, one.placement.pods, one.workload.spec.pod_sets)
        cluster.release(workload.team, found.placement.pods, workload.spec.pod_sets)
        rehearsal.rollback()
        for one in back:
            cluster.charge(one.team, one.placement.pods, one.workload.spec.pod_sets)

    def _returns(self, one: Occupant) -> bool:
        """Whether it may stay where it is after all; if so it is charged there again."""
        cluster, pod_sets = self._state.cluster, one.workload.spec.pod_sets
        sizes = {pod_set.name: pod_size(pod_set) for pod_set in pod_sets}
        pods = one.placement.pods
        if not all(
            takes(cluster.nodes[pod.node], pod.shares, one.team, sizes[pod.pod_set])
            for pod in pods
        ):
            return False
        self._leavers.set(one, frozenset())
        if self._short():
            self._leavers.set(one, _all(one))
            return False
        cluster.charge(one.team, pods, pod_sets)
        return True

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
