"""Why quota lets a workload wait: one reason, the numbers in A7's words, and the next step."""

from __future__ import annotations

from typing import Final

from shared.core.model.amounts import (
    FIELDS,
    UNITS,
    Amount,
    exceeded,
    short_units,
    text,
    told_units,
)
from shared.core.model.decision import Reason, Refusal
from shared.core.model.units import UNLIMITED
from shared.core.model.wording import moment
from shared.core.quota.attainable import Beyond
from shared.core.quota.limits import exceeding, plus
from shared.core.quota.tree import NOTHING, QuotaNode

_UNEVICTABLE: Final = "it may not be evicted, so its queue borrows nothing for it"


def queue_held(queue: str, *, draining: bool) -> Refusal:
    """The queue takes nothing in."""
    stopped = "is drained: what runs of it is stopped, and" if draining else "is held:"
    return Refusal(
        reason=Reason.QUEUE_HELD,
        message=f"queue {queue} {stopped} nothing of it is started",
        next_step="an administrator must release the queue",
    )


def no_flavor(queue: str, products: tuple[str, ...]) -> Refusal:
    """No flavor of the queue has what is wanted."""
    wanted = f" of {', '.join(products[:4])}" if products else ""
    return Refusal(
        reason=Reason.NO_MATCHING_NODE,
        message=f"queue {queue} has no quota in any flavor{wanted}",
        next_step="choose another product or queue, or ask for quota in such a flavor",
    )


def only_spot(queue: str) -> Refusal:
    """Only spot flavors would do, and the workload cannot live there."""
    return Refusal(
        reason=Reason.NO_MATCHING_NODE,
        message=f"queue {queue} has only spot flavors for it, and it may not be interrupted",
        next_step="set checkpoint_interval_seconds and preemptible, or ask for other quota",
    )


def exceeds(node: QuotaNode, flavor: str, request: Amount, limit: Amount | None = None) -> Refusal:
    """More than the whole quota, or its `limit` of it: it would wait for ever."""
    most = node.potential(flavor) if limit is None else limit
    why = "" if most == node.potential(flavor) else f": {_UNEVICTABLE}"
    instead = "set preemptible, " if why else ""
    return Refusal(
        reason=Reason.EXCEEDS_QUOTA,
        message=f"{exceeded(node.name, request, NOTHING, most)} (flavor {flavor}){why}",
        next_step=f"{instead}ask for less, or for more quota: this can never start",
        evidence=_evidence(request, NOTHING, most),
    )


def may_not_borrow(queue: QuotaNode, flavor: str, request: Amount) -> Refusal:
    """The rest of what the queue owns does not suffice, and the loan could not be taken back."""
    owned, taken = queue.owned(flavor), queue.taken(flavor)
    short = told_units(exceeding(plus(taken, request), owned), short_units(request, taken, owned))
    return Refusal(
        reason=Reason.WAITING_FOR_QUOTA,
        message=f"{exceeded(queue.name, request, taken, owned)} (flavor {flavor}): {_UNEVICTABLE}",
        next_step=f"starts when {short} less of {queue.name} is used; or set preemptible",
        evidence=_evidence(request, taken, owned),
    )


def waiting(queue: QuotaNode, node: QuotaNode, flavor: str, asked: Amount) -> Refusal:
    """It fits once others of `node`, the queue or a cohort above it, have ended.

    `asked` is the part of the request that `node` has to count.
    """
    limit, taken = node.limits_in(flavor).ceiling, node.taken(flavor)
    short = short_units(asked, taken, limit)
    missing = ", ".join(
        text(UNITS[index], taken[index] + asked[index] - limit[index]) for index in short
    )
    level = _level(queue, node, flavor, short)
    return Refusal(
        reason=Reason.WAITING_FOR_QUOTA,
        message=f"{exceeded(node.name, asked, taken, limit)} (flavor {flavor}){level}",
        next_step=f"starts when {missing} more of {node.name} is free",
        evidence=_evidence(asked, taken, limit),
    )


def _level(queue: QuotaNode, node: QuotaNode, flavor: str, short: list[int]) -> str:
    """What the queue owns, or a cohort has for all its members, and what the queue borrows."""
    if node is queue and node.parent is None:
        return ""

    own = queue.own(flavor)
    limit = own.borrowing_limit if own is not None else NOTHING
    owned = told_units(node.owned(flavor), short)
    if node is queue:
        may = told_units(limit or NOTHING, short)
        return f"; queue {node.name} owns {owned} and may borrow {may}"
    borrowed = told_units(exceeding(queue.taken(flavor), queue.owned(flavor)), short)
    most = "" if limit is None else f" of at most {told_units(limit, short)}"
    shared = f"cohort {node.name} has {owned} for all its members"
    return f"; {shared}, queue {queue.name} borrows {borrowed}{most}"


def beyond(found: Beyond, flavor: str) -> Refusal:
    """More than others leave of what they own: no node is kept for it meanwhile."""
    node, wanted, others = found
    limit = node.limits_in(flavor).ceiling
    short = short_units(wanted, others, limit)
    if not any(others[one] for one in short):
        return exceeds(node, flavor, wanted)
    held, most = told_units(others, short), told_units(limit, short)
    less = told_units(exceeding(plus(wanted, others), limit), short)
    return Refusal(
        reason=Reason.WAITING_FOR_QUOTA,
        message=f"others own and use {held} of the {most} of {node.name} (flavor {flavor}): too"
        " little is left for it even without borrowing, so no nodes are kept for it",
        next_step=f"starts when others use {less} less of what they own; or ask for more quota",
        evidence=_evidence(wanted, others, limit),
    )


def kept_for(level: QuotaNode, flavor: str, queue: str, wanted: Amount, until_ms: int) -> Refusal:
    """There is quota, which is kept for another that is earlier in order (core/backfill)."""
    asked = told_units(wanted, [index for index in range(len(UNITS)) if wanted[index]])
    return Refusal(
        reason=Reason.QUOTA_KEPT,
        message=f"what comes free of {level.name} (flavor {flavor}) is kept for work of queue"
        f" {queue} that needs {asked} and comes first; all of it is expected by"
        f" {moment(until_ms)}",
        next_step="starts after it, or before if it will end in time: say how long it takes",
        evidence={"quota_kept_until_ms": until_ms},
    )


def behind_head(queue: str, head: str) -> Refusal:
    """Strict order: nothing passes a head that waits."""
    return Refusal(
        reason=Reason.BEHIND_HEAD,
        message=f"queue {queue} is strict: {head} is ahead and must start first",
        next_step=f"wait for {head}, or raise the priority",
    )


def window_full(open_max: int) -> Refusal:
    """So many are being tried already that more would change nothing."""
    return Refusal(
        reason=Reason.NO_CAPACITY,
        message=f"{open_max} workloads that may start already wait for devices ahead of it",
        next_step="wait for devices, or raise the priority",
        evidence={"open_nominations": open_max},
    )


def _evidence(request: Amount, used: Amount, limit: Amount) -> dict[str, int]:
    evidence: dict[str, int] = {}
    for index, name in enumerate(FIELDS):
        if request[index] and limit[index] < UNLIMITED:
            evidence[f"requested_{name}"] = request[index]
            evidence[f"used_{name}"] = used[index]
            evidence[f"limited_{name}"] = limit[index]
    return evidence
