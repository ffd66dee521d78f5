"""What stands around a workload that waits: place, limits, next expected ends, turn.

Looked up on request, as of now; the recorded reason is `services/gateway/why/why.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec

from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.queues.queue_use import free_gpu_milli, use_by_queue
from services.gateway.queues.queue_views import BudgetSpent
from services.gateway.queues.quota_tree import (
    flavors_for,
    out_of_reach,
    queues_below,
    quota_tree,
    spot_left_out,
)
from services.gateway.queues.standstill import nearly_spent, standstill
from services.gateway.why.headline import Reclaiming, ReclaimNeed, reclaiming
from services.gateway.why.levels import level_of, owned_only
from services.gateway.why.neighbours import frees_next, place_in_queue, vacated_for
from services.gateway.why.no_eviction import no_eviction
from services.gateway.why.turn import QueueShares, owed, owing, owned_flavor, turn_view
from services.gateway.why.why_views import (
    Freeing,
    LimitLevel,
    NoEvictionView,
    OwedTurn,
    QueuePlace,
)
from shared.core.model.amounts import Amount
from shared.core.model.charges import least_amount
from shared.core.model.decision import Reason, Refusal
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadSpec
from shared.core.quota import reasons as quota_reasons
from shared.core.quota.totals import Totals
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree

FLAVORS_MAX: Final = 8
"""Flavors of a queue with levels that are told."""
UNSHARED: Final = frozenset(
    reason.value
    for reason in (
        Reason.EXCEEDS_QUOTA,
        Reason.BUDGET_SPENT,
        Reason.QUEUE_HELD,
        Reason.BEHIND_HEAD,
        Reason.NO_MATCHING_NODE,
        Reason.NODES_UNHEALTHY,
    )
)
"""Reasons that no share would change: neither room nor what others lend is missing."""
UNFREED: Final = frozenset(
    (Reason.EXCEEDS_QUOTA.value, Reason.QUEUE_HELD.value, Reason.NO_MATCHING_NODE.value)
)
"""Reasons that no end of other work would change."""
_TOLD_AT: Final = "SELECT at_ms FROM gateway.node_debt WHERE node = $1"
_Worked = TypeVar("_Worked", QueueShares, Totals)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)


@dataclass(frozen=True, slots=True)
class WaitContext:
    """What stands around a workload that waits."""

    stopped: Refusal | None = None
    """Why nothing of its queue is started now, whatever else is so."""
    place: QueuePlace | None = None
    limits: tuple[LimitLevel, ...] = ()
    frees_next: tuple[Freeing, ...] = ()
    refusal: Refusal | None = None
    """Why quota would refuse it now."""
    beyond: Refusal | None = None
    """That others own and use so much that neither time nor evictions help."""
    reclaiming: Reclaiming | None = None
    """That others borrow what its queue owns, and when that is taken back."""
    owed: str = ""
    """That its queue owns enough for it."""
    no_eviction: NoEvictionView | None = None
    """Why no victim is evicted for it."""
    turn: OwedTurn | None = None
    """What its queue owes, where others go first for it."""
    spot_left_out: tuple[str, ...] = ()
    """Flavors that it may not use, as it may not be interrupted."""
    budget: BudgetSpent | None = None
    """Of its team, once that was warned of it."""
    flavors: tuple[str, ...] = ()
    """Those in which it may be tried."""


NOTHING_AROUND: Final = WaitContext()


async def around(
    gateway: GatewayContext, call: RequestContext, row: Mapping[str, Any], reason: str
) -> WaitContext:
    """All of it for a queued workload that waits for `reason`. O(live), mostly remembered."""
    place = await place_in_queue(gateway, row)
    tree = await quota_tree(gateway)
    queue = tree.node(row["queue"])
    spec = _specs.decode(row["spec"]) if row["spec"] else None
    flavors = (await flavors_for(gateway, queue, spec))[:FLAVORS_MAX]
    request = least_amount(spec) if spec else NOTHING
    blockers = {one: tree.blocking(queue, one, request) for one in flavors}
    blocked = {flavor: found for flavor, found in blockers.items() if found is not None}
    totals = _of_tree(gateway, tree, Totals)
    budget = await nearly_spent(gateway, queue)
    stopped = standstill(queue, budget)
    reason = stopped.reason.value if stopped is not None else reason
    own = owned_only(budget, queue, spec)
    levels = tuple(
        level_of(totals, node, flavor, blocked.get(flavor), owned_only=own)
        for flavor in flavors
        for node in queue.path()
    )
    below = None
    if flavors and len(blocked) == len(flavors):  # quota decides: only what it counts can help
        below = {name for node, _ in blocked.values() for name in queues_below(node)}
    waits_for_ends = stopped is None and reason not in UNFREED
    frees = await frees_next(gateway, call, row["id"], flavors, below) if waits_for_ends else ()
    spot = tuple(await spot_left_out(gateway, queue, spec))
    beyond = out_of_reach(queue, flavors, request)
    shared = WaitContext(
        stopped,
        place,
        levels,
        frees,
        _refused_by_quota(queue, place, flavors, blocked),
        beyond,
        no_eviction=await no_eviction(gateway, row, spec, reason),
        spot_left_out=spot,
        budget=budget,
        flavors=tuple(flavors),
    )
    if not flavors or reason in UNSHARED:
        return shared
    flavor = owned_flavor(queue, flavors, request)
    if flavor is not None:
        need = ReclaimNeed(
            flavor=flavor,
            gpu_milli=request[0],
            ahead_gpu_milli=place.gpu_milli_ahead,
            free_gpu_milli=await free_gpu_milli(gateway, flavor),
        )
        vacated = await vacated_for(gateway, row["id"])
        return replace(
            shared,
            owed=owed(queue, flavor, shared.no_eviction),
            reclaiming=reclaiming(queue, need, vacated, shared.no_eviction),
        )
    may_borrow = [one for one in flavors if one not in blocked or blocked[one][0] is not queue]
    return replace(shared, turn=await _turn(gateway, tree, queue, may_borrow, row["priority"]))


def _refused_by_quota(
    queue: QuotaNode,
    place: QueuePlace,
    flavors: Sequence[str],
    blocked: Mapping[str, tuple[QuotaNode, Amount]],
) -> Refusal | None:
    """Why quota would refuse it now: its strict queue before the limits of all its flavors.

    `blocked`: of flavors that have no room for it, where in the tree, and what is asked there.
    """
    strict = queue.document is not None and queue.document.strict
    if strict and place.place > 1 and place.first:
        return quota_reasons.behind_head(queue.name, place.first[0].id)
    if not flavors or len(blocked) < len(flavors):
        return None
    node, asked = blocked[flavors[0]]
    return quota_reasons.waiting(queue, node, flavors[0], asked)


async def _turn(
    gateway: GatewayContext,
    tree: QuotaTree,
    queue: QuotaNode,
    flavors: Sequence[str],
    priority: int,
) -> OwedTurn | None:
    """What is owed for which others of its priority go first; higher ones always do."""
    waiting = [
        name for name, rows in (await use_by_queue(gateway)).items() if _waits(rows, priority)
    ]
    found = owing(_of_tree(gateway, tree, QueueShares), queue, flavors, waiting)
    if found is None:
        return None
    rows = await gateway.reader.fetch(_TOLD_AT, found.node.name)
    return turn_view(found, flavors[0], rows[0]["at_ms"]) if rows else None


def _of_tree(gateway: GatewayContext, tree: QuotaTree, worked: type[_Worked]) -> _Worked:
    """What is worked out of a tree, remembered as long as the tree is."""
    known = gateway.cache.get(worked.__name__)
    if known is None or known[1].tree is not tree:
        known = gateway.cache[worked.__name__] = (gateway.clock.monotonic_seconds(), worked(tree))
    remembered: _Worked = known[1]
    return remembered


def _waits(rows: Sequence[Mapping[str, Any]], priority: int) -> bool:
    return any(row["state"] == State.QUEUED.value and row["priority"] == priority for row in rows)
