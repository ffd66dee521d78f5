"""What a refused `create` means: wait, or never try the same again; and its words for people."""

from __future__ import annotations

from typing import Final, NamedTuple

from shared.events.pods import EXCEEDED_QUOTA, WAITED_FOR
from shared.ports.cluster import MissingObject, PodResult

FORBIDDEN: Final = 403
_OF_QUOTA: Final = "exceeded quota: "
_OF_PERMISSION: Final = "cannot create resource"
"""The binder itself may not: no pod is at fault, and an operator can mend it."""
_FOR_GOOD: Final = frozenset((400, FORBIDDEN, 404, 422))
_OF_TEAM: Final = {
    "Namespace": "create it, or name another in the document of the team",
    "ServiceAccount": "create it, or name another in the document of the team",
}
_OF_WORKLOAD: Final = "create it or name another, then submit again"


class CreateRefusal(NamedTuple):
    """`ends`: the same again would be refused again."""

    reason: str
    message: str
    ends: bool


def refusal_of(result: PodResult) -> CreateRefusal:
    """What the answer to a create without a pod says."""
    words = result.message
    if result.missing is not None:
        return _of_missing(result.missing)
    if result.status == FORBIDDEN and _OF_QUOTA in words:
        return CreateRefusal(EXCEEDED_QUOTA, words[words.index(_OF_QUOTA) :], ends=False)
    reason = result.reason or f"HTTP {result.status}"
    ends = result.status in _FOR_GOOD and _OF_PERMISSION not in words
    if result.errors:
        words = "; ".join(f"{one.field}: {one.rule} (got {one.value})" for one in result.errors)
    return CreateRefusal(reason, words or f"create answered {result.status}", ends)


def _of_missing(missing: MissingObject) -> CreateRefusal:
    """What the team's document names is waited for: an operator mends it for all of its work."""
    reason = f"{missing.kind}NotFound"
    place = f" in namespace {missing.namespace}" if missing.namespace else ""
    next_step = _OF_TEAM.get(missing.kind, _OF_WORKLOAD)
    message = f"{missing.kind} {missing.name} does not exist{place}; {next_step}"
    return CreateRefusal(reason, message, ends=reason not in WAITED_FOR)
