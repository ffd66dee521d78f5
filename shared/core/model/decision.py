"""What a decision says when it is not yes: a reason code, one sentence, numbers, a next step.

A refusal is a value, not an exception. The codes follow Kueue's typed pending
reasons, which users know; `message` holds the numbers, `next_step` what would unblock.
"""

from __future__ import annotations

from shared.core.model.reason import Reason
from shared.core.model.value import Value, field

__all__ = ["FieldError", "Reason", "Refusal"]


class Refusal(Value, frozen=True, kw_only=True):
    """Why nothing was placed. `evidence` holds counts by name, for programs."""

    reason: Reason
    message: str
    next_step: str
    evidence: dict[str, int] = field(default_factory=dict)


class FieldError(Value, frozen=True, kw_only=True):
    """One broken rule of a submission: where, what was given, and what is allowed."""

    field: str
    """Path of the field, such as pod_sets[0].gpu.count; empty: the whole body."""
    value: str
    """What was given, shortened; empty: nothing."""
    rule: str
    """What is allowed."""
    remedy: str = ""
    """What to ask for instead, where the rule does not say it (core/admission/remedy.py)."""
