"""What a decision says when it is not yes: a reason code, one sentence, numbers, a next step.

A refusal is a value, not an exception (style.md 1.13). The codes follow Kueue's typed pending
reasons, which users know; `message` holds the numbers, `next_step` what would unblock.
"""

from __future__ import annotations

from enum import StrEnum

from shared.core.value import Value, field


class Reason(StrEnum):
    """Why a workload waits; the dominant reason only."""

    WAITING_FOR_QUOTA = "WaitingForQuota"
    QUOTA_KEPT = "QuotaKept"
    RECLAIM = "WaitingForReclaim"
    """Others borrow what its queue owns: told by those who look at the quota tree of now."""
    EXCEEDS_QUOTA = "ExceedsMaxQuota"
    BUDGET_SPENT = "BudgetSpent"
    QUEUE_HELD = "QueueHeld"
    BEHIND_HEAD = "BehindStrictHead"
    NO_MATCHING_NODE = "NoMatchingFlavor"
    NO_CAPACITY = "InsufficientCapacity"
    GANG_SHORT = "GangIncomplete"
    TOPOLOGY = "TopologyPlacementFailed"
    NO_MIG_POSITION = "NoLegalMigPosition"
    NODES_UNHEALTHY = "NodesUnhealthy"


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
