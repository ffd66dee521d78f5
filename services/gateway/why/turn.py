"""The turn of a workload, in words: what is owed to it, or for which debt others go first.

What fits into its queue's own quota comes before all of its priority that borrow, and may take
its room back. A workload that must borrow waits for those of its priority with a lower sum of
share and debt, looked at from the top of the tree down (core.quota.fair_share). The first level
at which others are ahead and where something is owed is told. Credits of others are not: they are
what is owed here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from services.gateway.why.no_eviction import in_words
from services.gateway.why.why_views import NoEvictionView, OwedTurn
from shared.core.model.amounts import Amount
from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.model.wording import count, moment
from shared.core.quota.deficits import HALF_LIFE_MS, REPAID_MS
from shared.core.quota.fair_share import (
    SHARE_ONE,
    borrowed_share,
    lendable,
    shares,
    weight_of,
    within_nominal,
)
from shared.core.quota.queue_policy import Reclaim
from shared.core.quota.tree import QuotaNode, QuotaTree

LEAST_MILLIONTHS: Final = 500
"""Less is rounded to nothing."""
HOUR_MS: Final = 3_600_000
GPU: Final = 0
_RUN_LONG_ENOUGH: Final = "have run as long as their own queues grant are evicted for it"
_TAKES_BACK: Final = {
    Reclaim.ANY: f"borrowers that {_RUN_LONG_ENOUGH}",
    Reclaim.LOWER_PRIORITY: f"borrowers of lower priority that {_RUN_LONG_ENOUGH}",
    Reclaim.NEVER: "it waits until borrowers end: by its policy the queue takes nothing back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owing:
    """The level that owes, and how many queues go before it there."""

    node: QuotaNode
    queues_ahead: int


def owned_flavor(queue: QuotaNode, flavors: Iterable[str], request: Amount) -> str | None:
    """The first flavor with enough left of what the queue owns; None: it must borrow."""
    return next((one for one in flavors if within_nominal(queue, one, request)), None)


def owed(queue: QuotaNode, flavor: str, no_eviction: NoEvictionView | None = None) -> str:
    """Why a workload within its queue's own quota comes first, and how it gets its room.

    That borrowers go for it is said where no search has found otherwise. "" where the queue
    shares with no other queue.
    """
    if queue.parent is None or queue.document is None:
        return ""
    policy, owned = queue.document.policy, queue.owned(flavor)[GPU]
    of = ""
    if 0 < owned < UNLIMITED:
        of = f" (it uses {_gpus(queue.taken(flavor)[GPU])} of its {_gpus(owned)} {flavor} GPUs)"
    enough = f"queue {queue.name} owns enough for it{of}"
    first = f"{enough}: it comes before all of its priority that borrow"
    if no_eviction is not None:
        return f"{first}, but {in_words(no_eviction)}"
    if not _others_borrow(queue.root, queue, flavor):
        return f"{enough}, and no other queue borrows: there is nothing to take back for it"
    after = ""
    if policy.preemption_delay_seconds and policy.reclaim is not Reclaim.NEVER:
        after = f", {policy.preemption_delay_seconds} s after its submission"
    return f"{first}, and {_TAKES_BACK[policy.reclaim]}{after}"


def _others_borrow(node: QuotaNode, queue: QuotaNode, flavor: str) -> bool:
    """Whether a queue at or below `node`, other than `queue`, uses more than it owns."""
    if node.is_queue:
        return node is not queue and any(node.borrowed(flavor))
    return any(_others_borrow(one, queue, flavor) for one in node.children.values())


class QueueShares:
    """Shares of the queues of one moment's tree, each worked out once, when it is asked for."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._known: dict[str, tuple[int, ...]] = {}

    def of(self, queue: str) -> tuple[int, ...]:
        """From the top down. O(depth x flavors) the first time."""
        found = self._known.get(queue)
        if found is None:
            found = self._known[queue] = shares(self.tree.node(queue))
        return found


def owing(
    known: QueueShares, queue: QuotaNode, flavors: Collection[str], waiting: Iterable[str]
) -> Owing | None:
    """Where a debt of `queue` lets others go first, of the queues that are `waiting`.

    O(queues that wait), nothing where nothing is owed.
    """
    levels = [node for node in queue.path() if node.parent is not None][::-1]
    if all(node.debt < LEAST_MILLIONTHS for node in levels):
        return None
    mine, ahead = known.of(queue.name), [0] * len(levels)
    for name in waiting:
        theirs = known.of(name)
        if theirs < mine and _competes(known.tree.node(name), queue, flavors):
            differs = next(at for at, share in enumerate(mine) if theirs[at] != share)
            if differs < len(levels):
                ahead[differs] += 1
    for node, queues in zip(levels, ahead, strict=True):
        if queues and node.debt >= LEAST_MILLIONTHS:
            return Owing(node=node, queues_ahead=queues)
    return None


def _competes(other: QuotaNode, queue: QuotaNode, flavors: Collection[str]) -> bool:
    """Whether both may take the same quota."""
    document = other.document
    wants = document is not None and any(one in document.flavors for one in flavors)
    return wants and other.root is queue.root


def turn_view(found: Owing, flavor: str, told_at_ms: int) -> OwedTurn:
    """The same as it is read, with the sentence."""
    node = found.node
    kind = "queue" if node.is_queue else "cohort"
    return OwedTurn(
        name=node.name,
        kind=kind,
        share_millionths=borrowed_share(node),
        debt_millionths=node.debt,
        debt_told_at_ms=told_at_ms,
        queues_ahead=found.queues_ahead,
        message=(
            f"{kind} {node.name} used more than its fair share: a deficit of"
            f" {_percent(node.debt)} of share{_worth(node, flavor)} beside the"
            f" {_percent(borrowed_share(node))} that it borrows (as of {moment(told_at_ms)}), so"
            f" it comes after {count(found.queues_ahead, 'other queue')} with less of both:"
            f" {REPAID_MS // HOUR_MS} h with so much less than its fair share pay it back, half"
            f" of it is forgotten in {HALF_LIFE_MS // HOUR_MS} h, and what fits into the queue's"
            " own quota is not delayed by it"
        ),
    )


def _gpus(milli: int) -> str:
    return f"{milli / GPU_MILLI:g}"


def _percent(millionths: int) -> str:
    return f"{millionths / (SHARE_ONE // 100):.1f} %"


def _worth(node: QuotaNode, flavor: str) -> str:
    """The debt in GPU-hours, where its cohort owns a number of GPUs to measure it by."""
    whole = lendable(node, flavor)[GPU]
    if not 0 < whole < UNLIMITED:
        return ""
    gpu_milli = node.debt * weight_of(node) * whole // SHARE_ONE
    return f", {gpu_milli * REPAID_MS / HOUR_MS / GPU_MILLI:.1f} GPU-hours of {flavor},"
