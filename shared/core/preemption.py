"""Whom to evict so that a workload that waits can start whole: the cheapest set (mission R1, R2).

1. It fits now, or must still wait before others are evicted for it: nobody goes.
2. In each permitted flavor: who may go by the rules (core/preemption_rules.py), the cheapest for
   each GPU first, until the placer finds room and quota allows it at every level of the tree.
3. Trimmed: whoever can stay, the dearest first, stays.
4. Of the flavors, the cheapest.
Everything is tried on the cluster and on the tree themselves, and taken back.
"""

from __future__ import annotations

from collections import Counter

from shared.core.amounts import amount
from shared.core.cluster import Cluster
from shared.core.demand import gang_of
from shared.core.model import Placement, Workload
from shared.core.occupants import Occupant, Occupants
from shared.core.preemption_plan import (
    Alternative,
    EvictionPlan,
    Limits,
    NoEviction,
    Obstacle,
    Rule,
    Victim,
)
from shared.core.preemption_rules import Judge, Rules, Spared, charge_of, policy_of
from shared.core.quota import QuotaTree
from shared.core.rehearsal import Rehearsal
from shared.core.request import PlacementRequest
from shared.core.units import GPU_MILLI, UNBOUNDED

__all__ = [
    "Alternative",
    "EvictionPlan",
    "Limits",
    "NoEviction",
    "Obstacle",
    "Occupant",
    "Occupants",
    "Rule",
    "Rules",
    "Victim",
    "choose_victims",
]


def choose_victims(
    cluster: Cluster,
    tree: QuotaTree,
    occupants: Occupants,
    request: PlacementRequest,
    rules: Rules,
    *,
    now_ms: int,
    limits: Limits | None = None,
) -> EvictionPlan | NoEviction:
    """The cheapest eviction that lets `request` start; `cluster` and `tree` are left as they were.

    Args:
        cluster: all `occupants` are charged to it, and nothing for `request`.
        tree: the same of quota, with the policies of the queues.
        occupants: all that hold devices.
        request: the workload, with its priority and queue, and its permitted flavors; what of
            quota it may take follows from `tree`, `headroom` is not looked at.
        rules: cooldowns, loss budgets, and victims of other plans.
        now_ms: the time of the decision.
        limits: of the search.
    """
    workload = request.workload
    delay_ms = policy_of(tree.node(workload.queue)).preemption_delay_seconds * 1000
    if now_ms < workload.submitted_at_ms + delay_ms:
        until_ms = workload.submitted_at_ms + delay_ms
        return NoEviction(
            obstacle=Obstacle.DELAY,
            message=f"Others are evicted for it only {delay_ms // 1000} s after its submission.",
            retry_at_ms=until_ms,
        )
    found = [
        _Search(
            cluster,
            occupants,
            workload,
            Judge(tree, rules, workload, flavor=flavor, now_ms=now_ms),
            limits or Limits(),
        ).plan()
        for flavor in request.flavors
    ]
    plans = [each for each in found if isinstance(each, EvictionPlan)]
    if plans:
        return min(plans, key=lambda plan: plan.cost_gpu_ms)
    refused = [each for each in found if isinstance(each, NoEviction)]
    if not refused:
        return NoEviction(obstacle=Obstacle.QUOTA, message="No flavor is permitted to it.")
    return next((each for each in refused if each.obstacle is Obstacle.FITS), refused[0])


class _Search:
    """One flavor."""

    def __init__(
        self,
        cluster: Cluster,
        occupants: Occupants,
        workload: Workload,
        judge: Judge,
        limits: Limits,
    ) -> None:
        self._occupants = occupants
        self._workload = workload
        self._judge = judge
        self._gang = gang_of(workload)
        self._rehearsal = Rehearsal(cluster, occupants.tenants)
        self._limits = limits

    def plan(self) -> EvictionPlan | NoEviction:
        if self._fits() is not None:
            return NoEviction(obstacle=Obstacle.FITS, message="It fits without any eviction.")
        spared: Counter[Obstacle] = Counter()
        retry_at_ms = 0
        victims: dict[str, tuple[Occupant, Rule]] = {}
        placement: Placement | None = None
        for each in self._in_order():
            verdict = self._judge.spared(each) or self._judge.rule(each, charge_of(each))
            if isinstance(verdict, Spared):
                spared[verdict.obstacle] += charge_of(each)[0]
                if verdict.until_ms:
                    retry_at_ms = min(retry_at_ms or verdict.until_ms, verdict.until_ms)
                continue
            victims[each.id] = each, verdict
            self._judge.take(each, charge_of(each), verdict)
            self._rehearsal.stop(each)
            placement = self._fits()
            if placement is not None:
                break
        if placement is not None:
            placement = self._trim(victims, placement)
        self._take_back(victims)
        if placement is None:
            return self._none(spared, retry_at_ms, bool(victims))
        return EvictionPlan(
            workload_id=self._workload.id,
            flavor=self._judge.flavor,
            victims=tuple(self._victim(*each) for each in victims.values()),
            placement=placement,
        )

    def _in_order(self) -> list[Occupant]:
        def density(each: Occupant) -> tuple[int, str]:
            return self._judge.cost_gpu_ms(each) * GPU_MILLI // max(charge_of(each)[0], 1), each.id

        return sorted(self._occupants.in_flavor(self._judge.flavor), key=density)

    def _fits(self) -> Placement | None:
        placement = self._rehearsal.fits(self._gang, self._judge.flavor, UNBOUNDED)
        if placement is None:
            return None
        return placement if self._judge.allows(amount(placement.charge)) else None

    def _trim(self, victims: dict[str, tuple[Occupant, Rule]], placement: Placement) -> Placement:
        for each, rule in sorted(
            victims.values(), key=lambda pair: (-self._judge.cost_gpu_ms(pair[0]), pair[0].id)
        ):
            self._rehearsal.rollback()
            self._judge.give_back(each, charge_of(each))
            for other, _ in victims.values():
                if other is not each:
                    self._rehearsal.stop(other)
            without = self._fits()
            if without is None:
                self._judge.take(each, charge_of(each), rule)
            else:
                placement = without
                del victims[each.id]
        return placement

    def _take_back(self, victims: dict[str, tuple[Occupant, Rule]]) -> None:
        self._rehearsal.rollback()
        for each, _ in victims.values():
            self._judge.give_back(each, charge_of(each))

    def _victim(self, occupant: Occupant, rule: Rule) -> Victim:
        return Victim(
            workload_id=occupant.id,
            version=occupant.version,
            attempt=occupant.attempt,
            rule=rule,
            pods=occupant.placement.pods,
            lost_gpu_ms=occupant.lost_gpu_ms(self._judge.now_ms),
            cost_gpu_ms=self._judge.cost_gpu_ms(occupant),
        )

    def _none(self, spared: Counter[Obstacle], retry_at_ms: int, some: bool) -> NoEviction:  # noqa: FBT001
        if some or not spared:
            obstacle = Obstacle.NO_ROOM if some else Obstacle.NOBODY
        else:
            obstacle = max(spared, key=lambda each: (spared[each], each))
        told = ", ".join(f"{each.value} {spared[each]} milli-GPU" for each in sorted(spared))
        return NoEviction(
            obstacle=obstacle,
            message=f"No eviction that the rules allow makes room; spared: {told or 'none'}.",
            retry_at_ms=retry_at_ms,
            evidence={f"spared_{each.name.lower()}_gpu_milli": spared[each] for each in spared},
        )
