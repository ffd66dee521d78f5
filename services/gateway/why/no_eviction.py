"""Why no victim is evicted for a workload that waits, as preemption told it (ADR 58).

It is told of the first workload of a request class, and holds for all of that class: the class is
the one by which preemption itself asks once for all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.why.why_views import NoEvictionView
from shared.core.model.decision import Reason
from shared.core.model.nouns import Workload, WorkloadSpec
from shared.core.model.wording import moment
from shared.core.placement.place import request_class
from shared.events.plans import PreemptionRefused

UNSOUGHT: Final = frozenset(
    reason.value
    for reason in (
        Reason.QUOTA_KEPT,
        Reason.EXCEEDS_QUOTA,
        Reason.BUDGET_SPENT,
        Reason.QUEUE_HELD,
        Reason.BEHIND_HEAD,
        Reason.NO_MATCHING_NODE,
    )
)
"""Reasons for which no victims are searched: what was told before says nothing."""
LIKE_IT_MAX: Final = 8
"""Others of its size and priority that are looked at."""
_TOLD: Final = (
    "SELECT r.body, r.at_ms, w.id, w.team, s.spec FROM gateway.preemption_refusal r"  # noqa: S608  # constants
    " JOIN gateway.workload w ON w.id = r.workload_id AND w.version = r.version"
    " JOIN gateway.workload_spec s ON s.id = w.id"
    " WHERE r.queue = $1 AND w.queue = $1 AND w.state = 'queued' AND w.priority = $2"
    " AND w.gpu_milli = $3 AND w.pods = $4"
    f" ORDER BY r.at_ms DESC, w.id LIMIT {LIKE_IT_MAX}"
)
_facts: Final = msgspec.json.Decoder(PreemptionRefused)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)


async def no_eviction(
    gateway: GatewayContext, row: Mapping[str, Any], spec: WorkloadSpec | None, reason: str
) -> NoEvictionView | None:
    """The newest of those that ask for the same. O(told of its queue)."""
    if spec is None or reason in UNSOUGHT:
        return None
    mine = _class_of(row["team"], spec)
    size = (row["priority"], row["gpu_milli"], row["pods"])
    for one in await gateway.reader.fetch(_TOLD, row["queue"], *size):
        if one["id"] == row["id"] or _class_of(one["team"], _specs.decode(one["spec"])) == mine:
            return _view(_facts.decode(one["body"]), one["at_ms"], gateway.clock.now_ms())
    return None


def _class_of(team: str, spec: WorkloadSpec) -> Hashable:
    return request_class(
        Workload(id="", team=team, queue="", cell=0, priority=0, spec=spec, submitted_at_ms=0)
    )


def _view(fact: PreemptionRefused, at_ms: int, now_ms: int) -> NoEvictionView:
    """A time that has passed is left out: it is looked at again at any moment."""
    return NoEvictionView(
        obstacle=fact.obstacle,
        message=fact.message,
        next_step=fact.next_step,
        evidence=fact.evidence,
        flavor=fact.flavor,
        retry_at_ms=fact.retry_at_ms if fact.retry_at_ms > now_ms else None,
        at_ms=at_ms,
    )


def in_words(found: NoEvictionView) -> str:
    """The part of a sentence that says so, until when, and what would help."""
    message = found.message.removesuffix(".")
    if not found.flavor:  # which begins the sentence otherwise, and is a name
        message = message[:1].lower() + message[1:]
    again = f", which may change at {moment(found.retry_at_ms)}" if found.retry_at_ms else ""
    return (
        f"nothing is evicted for it (as of {moment(found.at_ms)}): {message}{again};"
        f" {found.next_step}"
    )
