"""What comes of planning moves: a plan, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.core.model.nouns import Placement
from shared.core.preemption.defragmentation.rehearsal import Move


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragmentationLimits:
    """How large a plan may be, and how long the search for it."""

    moves_max: int = 64
    steps_max: int = 4_000
    """Questions to the placer: some tenths of a millisecond each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Moves in the order in which they are to be made, and where the gang goes then."""

    moves: tuple[Move, ...]
    placement: Placement
    cost: int
    """Sum over the moved workloads."""

    @property
    def pods_moved(self) -> int:
        """Pods that are disturbed."""
        return sum(len(move.from_pods) for move in self.moves)

    @property
    def size(self) -> tuple[int, int]:
        """What plans are compared by."""
        return len(self.moves), self.cost


class DefragmentationObstacle(StrEnum):
    """Why there is no plan."""

    FITS = "FitsNow"
    QUOTA = "WaitingForQuota"
    NO_ROOM = "NotEvenAfterMoves"
    NO_REFUGE = "MoversFindNoPlace"
    LIMIT = "PlanTooLarge"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """Moves would not help, or are not needed."""

    obstacle: DefragmentationObstacle
    message: str


def no_plan(obstacle: DefragmentationObstacle) -> NoPlan:
    """The obstacle with its sentence."""
    return NoPlan(obstacle=obstacle, message=_MESSAGES[obstacle])


_MESSAGES: Final = {
    DefragmentationObstacle.FITS: "It fits now, without any move.",
    DefragmentationObstacle.QUOTA: "It waits for quota, which moves do not free.",
    DefragmentationObstacle.NO_ROOM: "It would not fit even if all that may be moved were gone.",
    DefragmentationObstacle.NO_REFUGE: (
        "Those in its way find no other place, or it does not fit without them."
    ),
    DefragmentationObstacle.LIMIT: (
        "It would need more moves, or a longer search, than the limits allow."
    ),
}
