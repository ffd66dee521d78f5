"""What to evict so that a workload that waits can start whole: the cheapest set (ADR 23).

1. It fits now, or must still wait before others are evicted for it: nothing goes.
2. In each permitted flavor: what may go by the rules (core/preemption/eligibility/rules.py), the
   cheapest for each GPU first, until the placer finds room and quota allows it at every level of
   the tree.
3. Trimmed: whatever can stay, the dearest first, stays.
4. Of the flavors, the cheapest.
Everything is tried on the cluster and on the tree themselves, and taken back.
"""

from __future__ import annotations

from shared.core.model.charges import least_amount
from shared.core.model.demand import gang_of
from shared.core.model.request import PlacementRequest
from shared.core.placement.gang import smallest
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.plan import (
    Alternative,
    EvictionPlan,
    NoEviction,
    Obstacle,
    Rule,
    SearchLimits,
    Victim,
)
from shared.core.preemption.eligibility.rules import EligibilityJudge, PreemptionRules, policy_of
from shared.core.preemption.victims.search import Found, VictimSearch
from shared.core.preemption.victims.telling import delayed, fits_now, plan_of, refused
from shared.core.quota.tree import QuotaTree
from shared.core.scoring import Cluster

__all__ = [
    "Alternative",
    "EvictionPlan",
    "NoEviction",
    "Obstacle",
    "Occupant",
    "Occupants",
    "PreemptionRules",
    "Rule",
    "SearchLimits",
    "Victim",
    "choose_victims",
]


def choose_victims(
    cluster: Cluster,
    tree: QuotaTree,
    occupants: Occupants,
    request: PlacementRequest,
    rules: PreemptionRules,
    *,
    now_ms: int,
    limits: SearchLimits | None = None,
) -> EvictionPlan | NoEviction:
    """The cheapest eviction that lets `request` start; `cluster` and `tree` are left as they were.

    Args:
        cluster: all `occupants` are charged to it, and nothing for `request`.
        tree: the same of quota, with the policies of the queues.
        occupants: all that hold devices.
        request: the workload, with its priority and queue, and its permitted flavors; what of
            quota it may take follows from `tree`, `headroom` is not looked at. Nodes of `pins`
            that are not its own give it no room.
        rules: cooldowns, loss budgets, and victims of other plans.
        now_ms: the time of the decision.
        limits: of the search.
    """
    workload = request.workload
    delay_ms = policy_of(tree.node(workload.queue)).preemption_delay_seconds * 1000
    if now_ms < workload.submitted_at_ms + delay_ms:
        return delayed(delay_ms, workload.submitted_at_ms + delay_ms)
    gang = smallest(gang_of(workload, request.pins))
    charge = least_amount(workload.spec)
    best: tuple[VictimSearch, Found] | None = None
    failures: list[tuple[str, VictimSearch]] = []
    for flavor in request.flavors:
        for straddling in (False, True):
            judge = EligibilityJudge(
                tree,
                rules,
                workload,
                charge,
                flavor=flavor,
                now_ms=now_ms,
                straddling=straddling,
                owned_only=request.owned_only,
            )
            search = VictimSearch(cluster, occupants, gang, judge, limits or SearchLimits())
            if not straddling and (placement := search.fits()) is not None:
                return fits_now(placement, search)
            found = search.find()
            if found is not None:
                if best is None or found.cost_gpu_ms < best[1].cost_gpu_ms:
                    best = search, found
                break
            failures.append((flavor, search))
    if best is None:
        return refused(gang, failures)
    return plan_of(workload, *best)
