"""What a refused `create` means: wait, or never try the same again; and its words for people."""

from __future__ import annotations

from typing import Final, NamedTuple

from shared.events.pods import EXCEEDED_QUOTA
from shared.ports.cluster import Result

FORBIDDEN: Final = 403
_OF_QUOTA: Final = "exceeded quota: "
_OF_PERMISSION: Final = "cannot create resource"
"""The binder itself may not: nobody's pods are at fault, and an operator can mend it."""
_FOR_GOOD: Final = frozenset((400, FORBIDDEN, 404, 422))


class CreateRefusal(NamedTuple):
    """`ends`: the same again would be refused again."""

    reason: str
    message: str
    ends: bool


def refusal_of(result: Result) -> CreateRefusal:
    """What the answer to a create without a pod says."""
    words = result.message
    if result.status == FORBIDDEN and _OF_QUOTA in words:
        return CreateRefusal(EXCEEDED_QUOTA, words[words.index(_OF_QUOTA) :], ends=False)
    reason = result.reason or f"HTTP {result.status}"
    ends = result.status in _FOR_GOOD and _OF_PERMISSION not in words
    if result.errors:
        words = "; ".join(f"{one.field}: {one.rule} (got {one.value})" for one in result.errors)
    return CreateRefusal(reason, words or f"create answered {result.status}", ends)
