"""Moves beside evictions: what may not be evicted goes on elsewhere, so that a gang finds room.

Small work within its quota on the nodes of those that borrow keeps them from ever being whole: no
eviction helps then (core/preemption/victims/choose.py says no). So, for what is owed room or had
no more than its part lately, in each permitted flavor:

1. All that may be evicted by the rules are gone, the cheapest first.
2. The fewest moves of those that stay let the gang in (core/preemption/defragmentation); they go
   to what is free.
3. What was thought gone comes back, the dearest first, unless the gang, a mover or quota needs it.

A workload is moved only if it could be evicted were it beyond its quota (minimum run time,
cooldown, loss budget, protected classes), none of a higher priority, and never more GPUs than
start. Everything is tried on the cluster and on the tree themselves, and taken back. Source:
consolidation (KAI); ADR 41.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from shared.core.model.charges import least_amount
from shared.core.model.request import PlacementRequest
from shared.core.preemption.defragmentation import DefragmentationLimits
from shared.core.preemption.eligibility.plan import EvictionPlan
from shared.core.preemption.moves.moving_search import MovingSearch, MovingState
from shared.core.quota.fair_share import arrears, borrows
from shared.core.quota.tree import QuotaTree
from shared.core.scoring import Cluster

__all__ = ["MovingState", "choose_moves", "limits_for", "may_ask"]

MOVES_PER_POD: Final = 4
FEW: Final = DefragmentationLimits(moves_max=24, steps_max=200)
MANY: Final = DefragmentationLimits(moves_max=64, steps_max=512)
"""A search takes half a second then."""


def limits_for(pods: int, moves_max: int = MANY.moves_max) -> DefragmentationLimits:
    """How many moves a plan for a gang of so many pods may have, and how long its search is.

    They grow with the gang, as it starts more GPUs; never more than `moves_max`.
    """
    wanted = max(FEW.moves_max, min(MOVES_PER_POD * pods, MANY.moves_max))
    steps = FEW.steps_max if wanted == FEW.moves_max else MANY.steps_max
    return DefragmentationLimits(moves_max=min(wanted, moves_max), steps_max=steps)


def choose_moves(
    state: MovingState,
    request: PlacementRequest,
    limits: DefragmentationLimits | None = None,
    promised: Collection[str] = (),
) -> EvictionPlan | None:
    """Moves, and evictions beside them, that let `request` start; None if there is no such plan.

    `request` is as for `choose_victims`, which is to be asked first; `promised` are nodes that are
    pinned for it, and will be no more once it starts, so movers may go there. O(nodes), and as
    many questions to the placer as `limits` allow (by default `limits_for` it): not for every
    decision.
    """
    if not may_ask(state.tree, request):
        return None
    limits = limits or limits_for(request.workload.pods)
    with _open(state.cluster, promised):
        plans = (MovingSearch(state, flavor, request).plan(limits) for flavor in request.flavors)
        return next((one for one in plans if one is not None and _worth_it(state, one)), None)


@contextmanager
def _open(cluster: Cluster, nodes: Collection[str]) -> Iterator[None]:
    """These nodes without the pins of promises."""
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


def _worth_it(state: MovingState, plan: EvictionPlan) -> bool:
    """No more GPUs are disturbed by moves than start, and no team loses more than it may."""
    running, left = state.occupants.tenants.running, dict(state.rules.loss_left_gpu_ms)
    moved = sum(running[one.workload_id].placement.charge.gpu_milli for one in plan.moves)
    for name, lost in plan.losses:
        team = running[name].team
        if team in left:
            left[team] -= lost
    return moved <= plan.placement.charge.gpu_milli and all(rest >= 0 for rest in left.values())
