"""Others borrow what the queue of a workload owns: which, how much, and when it is taken back.

That is the cause of a wait where the queue owns enough for the workload and for all ahead of it,
and the borrowed GPUs and the free ones together suffice; or where borrowers are being stopped for
the workload already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from services.gateway.why.why_views import NoEvictionView
from shared.core.model.decision import Reason, Refusal
from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.model.wording import count, moment
from shared.core.preemption.eligibility.plan import Obstacle
from shared.core.quota.queue_policy import Reclaim
from shared.core.quota.tree import QuotaNode

GPU: Final = 0
NAMED_MAX: Final = 2
"""Borrowers that a sentence names, those with most first."""
_SPARING: Final = frozenset(
    {
        Obstacle.DELAY,
        Obstacle.PROTECTED,
        Obstacle.NOT_EVICTABLE,
        Obstacle.PRIORITY,
        Obstacle.POLICY,
        Obstacle.MIN_RUNTIME,
        Obstacle.COOLDOWN,
        Obstacle.LOSS_BUDGET,
        Obstacle.PROMISED,
    }
)
"""Obstacles that keep borrowers where they are; with any other, borrowing is not the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReclaimNeed:
    """What a workload asks for in the first flavor of which its queue owns enough."""

    flavor: str
    gpu_milli: int
    ahead_gpu_milli: int
    """What those ahead in its queue ask for."""
    free_gpu_milli: int
    """Free GPUs of the flavor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacated:
    """What is being stopped for the workload, and by when its grace is over."""

    gpu_milli: int = 0
    by_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaiming:
    """The cause in words."""

    refusal: Refusal
    under_way: bool
    """Whether borrowers are being stopped for it already."""


def reclaiming(
    queue: QuotaNode, need: ReclaimNeed, vacated: Vacated, no_eviction: NoEvictionView | None
) -> Reclaiming | None:
    """Whether borrowed quota is why it waits. O(queues of the tree)."""
    borrowers = sorted(_borrowers(queue, need.flavor), key=lambda one: (-one[1], one[0]))
    borrowed_milli = sum(milli for _, milli in borrowers)
    under_way = vacated.gpu_milli > 0
    if not under_way and not _is_cause(queue, need, borrowed_milli, no_eviction):
        return None
    owned, used = queue.owned(need.flavor)[GPU], queue.taken(need.flavor)[GPU]
    limited = owned < UNLIMITED
    owns = f" {_gpus(owned)}" if limited else ""
    told = f"; {_told(borrowers, borrowed_milli)}" if borrowers else ""
    news, next_step = _prospect(queue, vacated, no_eviction)
    refusal = Refusal(
        reason=Reason.RECLAIM,
        message=f"queue {queue.name} owns{owns} {need.flavor} GPUs and uses {_gpus(used)}, this"
        f" needs {_gpus(need.gpu_milli)}{told}{news}",
        next_step=next_step,
        evidence={
            "requested_gpu_milli": need.gpu_milli,
            **({"owned_gpu_milli": owned} if limited else {}),
            "used_gpu_milli": used,
            "borrowed_by_others_gpu_milli": borrowed_milli,
            "free_gpu_milli": need.free_gpu_milli,
            **({"vacated_gpu_milli": vacated.gpu_milli} if under_way else {}),
            **({"vacated_by_ms": vacated.by_ms} if under_way else {}),
        },
    )
    return Reclaiming(refusal=refusal, under_way=under_way)


def _is_cause(
    queue: QuotaNode, need: ReclaimNeed, borrowed_milli: int, no_eviction: NoEvictionView | None
) -> bool:
    wanted = need.ahead_gpu_milli + need.gpu_milli
    spare = queue.owned(need.flavor)[GPU] - queue.taken(need.flavor)[GPU]
    free = need.free_gpu_milli
    spared = no_eviction is None or no_eviction.obstacle in _SPARING
    return spared and wanted <= spare and free < wanted <= free + borrowed_milli


def _borrowers(queue: QuotaNode, flavor: str) -> Iterator[tuple[str, int]]:
    """(queue, milli-GPU) of those that hold more than they own, and their cohorts as well."""
    path = set(queue.path())
    waiting = [(queue.root, UNLIMITED)]
    while waiting:
        node, most = waiting.pop()
        if node not in path:
            most = min(most, node.borrowed(flavor)[GPU])
        if node.is_queue and node is not queue and most:
            yield node.name, most
        waiting += [(one, most) for one in node.children.values()] if most else []


def _told(borrowers: list[tuple[str, int]], borrowed_milli: int) -> str:
    """Such as `queue vision borrows 1600`, or `queues a (3), b (2) and 4 more borrow 9 GPUs`."""
    if len(borrowers) == 1:
        return f"queue {borrowers[0][0]} borrows {_gpus(borrowed_milli)}"
    first = ", ".join(f"{name} ({_gpus(milli)})" for name, milli in borrowers[:NAMED_MAX])
    more = len(borrowers) - NAMED_MAX
    others = f" and {count(more, 'other queue')}" if more > 0 else ""
    return f"queues {first}{others} borrow {_gpus(borrowed_milli)}"


def _prospect(
    queue: QuotaNode, vacated: Vacated, no_eviction: NoEvictionView | None
) -> tuple[str, str]:
    """When it is taken back, and the next step."""
    if vacated.gpu_milli:
        by = moment(vacated.by_ms)
        news = f"; {_gpus(vacated.gpu_milli)} GPUs are being taken back for it, by {by}"
        return news, f"wait until {by}: nothing has to be changed"
    if no_eviction is not None:
        found = no_eviction
        at = f", which may change at {moment(found.retry_at_ms)}" if found.retry_at_ms else ""
        return f"; nothing is evicted for it now: {found.message.rstrip('.')}{at}", found.next_step
    policy = queue.document.policy if queue.document is not None else None
    if policy is not None and policy.reclaim is Reclaim.NEVER:
        return "", f"wait until borrowers end: by its policy queue {queue.name} takes nothing back"
    lower = " of lower priority" if policy and policy.reclaim is Reclaim.LOWER_PRIORITY else ""
    delay = policy.preemption_delay_seconds if policy is not None else 0
    after = f", {delay} s after its submission" if delay else ""
    return "", (
        f"wait: borrowers{lower} that have run as long as their own queues grant are evicted for"
        f" it{after}"
    )


def _gpus(milli: int) -> str:
    return f"{milli / GPU_MILLI:g}"
