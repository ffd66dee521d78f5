"""The orders that `benchmarks fairness` compares: the core's, others by papers and documents."""

from __future__ import annotations

from math import log
from typing import Any, Final

from shared.core.model.units import UNLIMITED
from shared.core.quota.fair_share import rank, within_nominal
from shared.core.quota.tree import QuotaNode
from shared.core.quota.usage_history import HALF_LIFE_MS
from tests.benchmarks.fairness_run import Policy, Run
from tests.benchmarks.fairness_world import FLAVOR, GPUS

USE_OVER_TIME: Final = HALF_LIFE_MS / 1000 / log(2)
"""Decayed use of one GPU that always ran, in GPU-seconds."""


def muster(run: Run, workload_id: str) -> tuple[Any, ...]:
    """The order of the core."""
    pending = run.live[workload_id].pending
    node = run.fleet.ledger.node(pending.queue)
    return rank(node, (FLAVOR,), pending.request, run.used(pending.queue))


def over_time(run: Run, workload_id: str) -> tuple[Any, ...]:
    """KAI's time-based fair share: weights corrected by use, P = max(W + k (W - U), 0), k = 1.

    W is a node's part of the weights of its sisters, U the decayed use of it as a part of the
    cluster. Who has the least above its own beside P goes first, department before team.
    """
    pending = run.live[workload_id].pending
    node = run.fleet.ledger.node(pending.queue)
    if within_nominal(node, FLAVOR, pending.request):
        return (0,)
    levels = [one for one in node.path() if one.parent is not None]
    return (1, *(_saturation(run, one) for one in reversed(levels)))


def _saturation(run: Run, node: QuotaNode) -> float:
    assert node.parent is not None
    part = weight_of(node) / sum(map(weight_of, node.parent.children.values()))
    queues = node.children or (node.name,)
    used = sum(run.used(one) for one in queues) / USE_OVER_TIME / (run.world.nodes * GPUS)
    corrected = max(2 * part - used, 0.0)
    borrowed = node.borrowed(FLAVOR)[0]
    return borrowed / corrected if corrected else float(borrowed > 0) * UNLIMITED


def weight_of(node: QuotaNode) -> int:
    """Of a department or team."""
    assert node.document is not None
    return node.document.weight


def drf(run: Run, workload_id: str) -> tuple[Any, ...]:
    """Dominant resource fairness of the moment: all that a team uses, by weight, flat."""
    team = run.live[workload_id].job.team
    return (run.fleet.running[team] * 1_000_000 // weight_of(run.fleet.ledger.node(team)),)


def fifo(run: Run, workload_id: str) -> tuple[Any, ...]:  # age alone
    """Who came first."""
    return ()


POLICIES: Final = {
    "muster": Policy(order=muster),
    "muster-without-moves": Policy(order=muster, moves=False),
    "muster-without-promises": Policy(order=muster, promises=False),
    "muster-without-debts": Policy(order=muster, debts=False),
    "over-time": Policy(order=over_time, debts=False, promises=False, moves=False),
    "drf": Policy(order=drf, reclaim=False, debts=False, promises=False, moves=False),
    "fifo": Policy(order=fifo, reclaim=False, debts=False, promises=False, moves=False),
}
"""Muster; without moves, promised starts, debts; KAI-like; and two that nobody is evicted for."""
