"""What quota decides about a workload: it may be tried, no longer, or it waits for a reason."""

from __future__ import annotations

from dataclasses import dataclass

from shared.core.model.amounts import Amount
from shared.core.model.decision import Refusal
from shared.core.queueing.nomination.pending import Pending


@dataclass(frozen=True, slots=True)
class Nominate:
    """`pending` may be tried in `flavors`, in this order."""

    pending: Pending
    nomination: int
    flavors: tuple[str, ...]
    strict: bool
    within_nominal: bool
    borrowable: tuple[Amount, ...]
    """For each flavor, what the queue may borrow there now."""
    by_eviction: bool
    """It fits in none of them before others have made room."""
    next_of_own: bool = False
    """It waits on; placement may place it within what its queue owns."""


@dataclass(frozen=True, slots=True)
class Expect:
    """`pending` was announced, and its queue owns room for it now: placement tries it."""

    pending: Pending
    nomination: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Nomination number `nomination` is taken back."""

    pending: Pending
    nomination: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """`pending` waits, for this reason."""

    pending: Pending
    refusal: Refusal


Decision = Nominate | Expect | Withdraw | Refuse
