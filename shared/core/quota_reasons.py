"""Why quota lets a workload wait: one reason, the numbers in A7's words, and the next step."""

from __future__ import annotations

from shared.core.amounts import FIELDS, Amount, exceeded, text
from shared.core.decision import Reason, Refusal
from shared.core.quota import NOTHING, QuotaNode
from shared.core.units import UNLIMITED


def queue_held(queue: str) -> Refusal:
    """The queue takes nothing in."""
    return Refusal(
        reason=Reason.QUEUE_HELD,
        message=f"queue {queue} is held: nothing of it is started",
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


def exceeds(node: QuotaNode, flavor: str, request: Amount) -> Refusal:
    """More than the whole quota: it would wait for ever."""
    limit = node.potential(flavor)
    return Refusal(
        reason=Reason.EXCEEDS_QUOTA,
        message=f"{exceeded(node.name, request, NOTHING, limit)} (flavor {flavor})",
        next_step="ask for less, or for more quota: this can never start",
        evidence=_evidence(request, NOTHING, limit),
    )


def waiting(node: QuotaNode, flavor: str, request: Amount) -> Refusal:
    """It fits once others of the queue (or of its cohort) have ended."""
    limit, taken = node.limits_in(flavor).ceiling, node.taken(flavor)
    missing = ", ".join(
        text(FIELDS[index].rpartition("_")[0], taken[index] + request[index] - limit[index])
        for index in range(len(FIELDS))
        if request[index]
        and limit[index] < UNLIMITED
        and taken[index] + request[index] > limit[index]
    )
    return Refusal(
        reason=Reason.WAITING_FOR_QUOTA,
        message=f"{exceeded(node.name, request, taken, limit)} (flavor {flavor})",
        next_step=f"starts when {missing} more of {node.name} is free",
        evidence=_evidence(request, taken, limit),
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
