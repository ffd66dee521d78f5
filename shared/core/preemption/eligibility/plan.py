"""What comes of looking for room: a plan of evictions and moves, or why nothing has to go.

Amounts of lost work are GPU-milliseconds (`gpu_ms`): one GPU for one millisecond.
"""

from __future__ import annotations

from enum import StrEnum

from shared.core.model.nouns import Placement, PodPlacement
from shared.core.model.reason import Reason
from shared.core.model.value import Value, field


class Rule(StrEnum):
    """What gives the preemptor the right to a victim's place, from the least to the furthest."""

    ROOM = Reason.BY_ROOM.value
    """No victim: as it might evict others, it may use nodes that are kept for brief or wide
    work (core/backfill/spare_room.py)."""
    MOVE = Reason.BY_MOVE.value
    """No workload is evicted: some go on elsewhere."""
    PRIORITY = Reason.BY_PRIORITY.value
    """Of its own queue, with a lower priority."""
    RECLAIM = Reason.BY_RECLAIM.value
    """Of a queue above its nominal quota, for one within it."""
    FAIR_SHARE = Reason.BY_FAIR_SHARE.value
    """Of a queue that has a strictly larger weighted share, before and after."""


class SearchLimits(Value, frozen=True, kw_only=True):
    """How long the search may take, and how much it tells."""

    trials_max: int = 256
    """Questions to the placer: some tenths of a millisecond each. After them it is not
    asked for another whether it might stay."""
    alternatives_max: int = 8


class Victim(Value, frozen=True, kw_only=True):
    """A workload that is to go, or (`kept_ranks` not empty) to give up `pods` of its pods."""

    workload_id: str
    version: int
    attempt: int
    rule: Rule
    pods: tuple[PodPlacement, ...]
    """Those that stop."""
    kept_ranks: tuple[int, ...] = ()
    """Ranks of those that go on: an elastic gang gives its surplus only."""
    lost_gpu_ms: int = 0
    cost_gpu_ms: int = 0
    """What the search compares: lost work, and what policy adds to it."""


class Moved(Value, frozen=True, kw_only=True):
    """A workload that is stopped and started again at `placement`, which is kept for it."""

    workload_id: str
    version: int
    attempt: int
    placement: Placement
    lost_gpu_ms: int = 0


class Alternative(Value, frozen=True, kw_only=True):
    """Another way that was looked at, and why it was not taken."""

    why: str
    flavor: str
    victims: tuple[str, ...] = ()
    lost_gpu_ms: int = 0
    cost_gpu_ms: int = 0


class EvictionPlan(Value, frozen=True, kw_only=True):
    """Let `victims` go, and those of `moves` go on elsewhere; then the preemptor fits whole.

    At `placement`, if nothing else changes.
    """

    workload_id: str
    """The preemptor."""
    flavor: str
    victims: tuple[Victim, ...]
    placement: Placement
    moves: tuple[Moved, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    followers: int = 0
    """Equal workloads behind the preemptor for which there is room then too."""

    @property
    def rule(self) -> Rule:
        """The furthest-reaching of the victims' rules."""
        rules = {victim.rule for victim in self.victims} | ({Rule.MOVE} if self.moves else set())
        return next((rule for rule in reversed(Rule) if rule in rules), Rule.ROOM)

    @property
    def lost_gpu_ms(self) -> int:
        """Work that is lost."""
        return sum(lost for _, lost in self.losses)

    @property
    def losses(self) -> list[tuple[str, int]]:
        """(workload id, lost work) of all that stop."""
        gone = [(one.workload_id, one.lost_gpu_ms) for one in self.victims]
        return gone + [(one.workload_id, one.lost_gpu_ms) for one in self.moves]

    @property
    def cost_gpu_ms(self) -> int:
        """What plans are compared by."""
        return sum(victim.cost_gpu_ms for victim in self.victims)


class Obstacle(StrEnum):
    """Why no workload is evicted; of several, the one that spares most GPUs."""

    FITS = Reason.FITS_NOW.value
    DELAY = Reason.DELAYED.value
    NOBODY = Reason.NOBODY.value
    PROTECTED = Reason.VICTIMS_PROTECTED.value
    NOT_EVICTABLE = Reason.VICTIMS_NOT_EVICTABLE.value
    PRIORITY = Reason.NO_LOWER_PRIORITY.value
    NOMINAL = Reason.WITHIN_NOMINAL.value
    COHORT_NOMINAL = Reason.COHORT_WITHIN_NOMINAL.value
    BELOW_NOMINAL = Reason.WOULD_FALL_BELOW_NOMINAL.value
    SHARE = Reason.NO_LARGER_SHARE.value
    POLICY = Reason.POLICY_FORBIDS.value
    MIN_RUNTIME = Reason.WITHIN_MIN_RUNTIME.value
    COOLDOWN = Reason.COOL_DOWN.value
    LOSS_BUDGET = Reason.LOSS_BUDGET_USED_UP.value
    PROMISED = Reason.VICTIMS_PROMISED.value
    NO_ROOM = Reason.NOT_EVEN_AFTER_EVICTIONS.value
    QUOTA = Reason.QUOTA_NOT_FREED.value


class NoEviction(Value, frozen=True, kw_only=True):
    """No victim is found: `evidence` holds counts by name, for programs."""

    obstacle: Obstacle
    message: str
    retry_at_ms: int = 0
    """When the first of those spared for a time may go; 0 if time alone does not help."""
    evidence: dict[str, int] = field(default_factory=dict)
    flavor: str = ""
    """The one that is spoken of; empty where it is none alone."""
    alternatives: tuple[Alternative, ...] = ()
    placement: Placement | None = None
    """Where it fits, if it does ..."""
    may_evict: bool = False
    """... and whether others might be evicted for it by the rules if it did not."""
