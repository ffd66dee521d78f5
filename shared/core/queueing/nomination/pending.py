"""A workload as quota sees it."""

from __future__ import annotations

from enum import StrEnum

from shared.core.model.amounts import Amount
from shared.core.model.decision import Reason
from shared.core.model.ordering import OrderKey, order_key
from shared.core.queueing.nomination.flavor_choice import ANY, FlavorChoice
from shared.core.quota.tree import NOTHING


class Phase(StrEnum):
    """Where quota stands with a workload; none of them is a state of the lifecycle."""

    WAITING = "waiting"
    OFFERED = "offered"
    """Nominated, no answer yet: counted as use."""
    REFUSED = "refused"
    """Nominated and refused; placement tries it again by itself: not counted."""
    IDLE = "idle"
    """Held or about to be cancelled: not to be nominated."""
    PLACED = "placed"
    """Charged by the ledger."""
    GONE = "gone"


class Pending:
    """One workload of a queue; changed in place by `core.queueing.nomination.nominator` alone."""

    __slots__ = (
        "attempt",
        "cancelled",
        "charge",
        "choice",
        "flavor",
        "held",
        "hold_asked",
        "hopes_in",
        "id",
        "key",
        "nomination",
        "offered",
        "phase",
        "placed_at_ms",
        "priority",
        "queue",
        "request",
        "submitted_at_ms",
        "team",
        "told",
        "version",
    )

    def __init__(
        self,
        identifier: str,
        *,
        team: str,
        queue: str,
        priority: int,
        submitted_at_ms: int,
        request: Amount,
        choice: FlavorChoice = ANY,
        version: int = 1,
    ) -> None:
        self.id = identifier
        self.team = team
        self.queue = queue
        self.priority = priority
        self.submitted_at_ms = submitted_at_ms
        self.request = request
        self.choice = choice
        self.version = version
        self.key: OrderKey = order_key(priority, submitted_at_ms, identifier)
        self.phase = Phase.IDLE
        self.held = False
        self.hold_asked = False
        self.cancelled = False
        self.nomination = 0
        self.flavor = ""
        """Counted in while offered, charged in while placed."""
        self.hopes_in = ""
        """The flavor in which it was nominated although others must make room first."""
        self.offered: tuple[str, ...] = ()
        """Flavors of the open nomination."""
        self.charge: Amount = NOTHING
        self.attempt = 0
        self.placed_at_ms = 0
        self.told: Reason | None = None

    @property
    def eligible(self) -> bool:
        """Whether it may be nominated at all."""
        return not (self.held or self.hold_asked or self.cancelled)
