"""What a queue may take from others, what others may take from it, and how long they must wait.

Kueue's `preemption` of a ClusterQueue (`withinClusterQueue`, `reclaimWithinCohort`, fair sharing)
in one noun, with the protections that its users ask for: a minimum run time and a cooldown for
those that are evicted, a delay for those for which others are (ADR 21).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.core.model.value import Value

POLICY_SECONDS_MAX: Final = 30 * 86_400
"""No wait of a policy is longer: thirty days."""


class WithinQueue(StrEnum):
    """Which work of its own queue a workload may have evicted."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"


class Reclaim(StrEnum):
    """Which borrowed quota a queue within its nominal quota may take back."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class QueuePolicy(Value, frozen=True, kw_only=True):
    """Rules of one queue; all times in seconds, 0 to `POLICY_SECONDS_MAX`."""

    within_queue: WithinQueue = WithinQueue.LOWER_PRIORITY
    """Which work of the same queue is evicted for its own."""
    reclaim: Reclaim = Reclaim.ANY
    """How the queue gets its nominal quota back from borrowers."""
    fair_share: bool = True
    """May take from queues with a strictly larger weighted share; never within their nominal."""
    borrow_before_preempt: bool = True
    """Of two flavors the one in which it may borrow comes before one where it must evict."""
    unevictable_may_borrow: bool = False
    """Work that may not be evicted may borrow, too: its lenders wait until it ends by itself."""
    spot_first: bool = False
    """Spot flavors are tried before the others, whatever the order of the document."""
    min_runtime_seconds: int = 60
    """Its own workloads are not evicted before they have run so long."""
    cooldown_seconds: int = 300
    """A workload evicted by preemption is not chosen again for so long."""
    preemption_delay_seconds: int = 0
    """Its workloads wait so long before others are evicted for them."""


DEFAULT_POLICY: Final = QueuePolicy()


def problem_of_policy(policy: QueuePolicy) -> str:
    """The first field out of bounds with its rule; "" for none."""
    for field in ("min_runtime_seconds", "cooldown_seconds", "preemption_delay_seconds"):
        value = getattr(policy, field)
        if not 0 <= value <= POLICY_SECONDS_MAX:
            return f"{field} {value} is not 0 to {POLICY_SECONDS_MAX}"
    return ""
