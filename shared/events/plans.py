"""Eviction plans: what the service preemption proposes or cannot, and what placement made of it.

A plan names all workloads with the version it was made for, so that placement can tell whether it
still means the same. One accepted plan is one `EvictionPlanAccepted`, a `WorkloadEvicted` for each
victim, and in the end either `WorkloadPlaced` of the preemptor or `ReservationExpired`.
"""

from __future__ import annotations

import msgspec

from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.core.preemption.eligibility.plan import Obstacle
from shared.events.workloads import Wire


class PlannedVictim(Wire, frozen=True, kw_only=True):
    """One attempt that is to go; `lost_gpu_ms` is what it would have to compute again."""

    workload_id: str
    """Id of the workload that goes."""
    version: int
    """Version of the workload that the plan was made for."""
    attempt: int
    pods_kept: int = 0
    """An elastic gang that gives up its surplus goes on with its first so many ranks."""
    rule: str = ""
    """Which rule lets the preemptor take it."""
    lost_gpu_ms: int = 0
    """GPU-milliseconds since its last checkpoint, and those of its restart."""
    moves_to: Placement | None = None
    """Where it goes on as soon as its pods have stopped: room is kept for it there (rule move)."""
    priority_class: str = ""
    """As the facts told it; for any other class no fact says that it may be taken."""


class RefusedAlternative(Wire, frozen=True, kw_only=True):
    """Another way to make room, and why it was not taken."""

    why: str
    """Why it was not taken."""
    victims: tuple[str, ...] = ()
    """Ids of the workloads that it would have evicted."""
    lost_gpu_ms: int = 0


class ProposeEvictionPlan(Wire, frozen=True, kw_only=True):
    """Let these victims go, and let the preemptor have the room.

    `flavor` is the one in which the preemptor is to be placed.
    """

    plan_id: str
    workload_id: str
    """The preemptor."""
    version: int
    """Version of the preemptor that the plan was made for."""
    nomination: int
    flavor: str
    rule: str
    victims: tuple[PlannedVictim, ...]
    """The workloads that go."""
    alternatives: tuple[RefusedAlternative, ...] = ()
    """Other plans that were refused."""
    team: str = ""
    queue: str = ""
    cell: int = 0
    followers: int = 0
    """Others of its queue behind the preemptor for which there is room then too; nothing is kept
    for them."""


class ReleaseIdleWorkload(Wire, frozen=True, kw_only=True):
    """Stop an attempt with GPUs that were seen idle, and hold the workload for its owner."""

    plan_id: str
    workload_id: str
    attempt: int
    since_ms: int
    until_ms: int
    """Time of the last report that saw it idle."""
    utilization_percent: int
    """The most that one of its GPUs was used meanwhile."""
    team: str = ""
    queue: str = ""
    cell: int = 0
    priority_class: str = ""
    """As the facts told it; for any other class no fact says that it is not spared."""


class PlanFact(Wire, frozen=True, kw_only=True):
    """What all answers to a plan share; team and queue are those of `workload_id`."""

    plan_id: str
    workload_id: str
    team: str
    queue: str
    cell: int = 0


class EvictionPlanAccepted(PlanFact, frozen=True, kw_only=True):
    """The victims are being evicted, and their room is reserved until `expires_at_ms`.

    So is that of each mover, by the plan `<plan_id>/<workload id>`.
    """

    flavor: str
    rule: str
    victims: tuple[PlannedVictim, ...]
    """The workloads that go."""
    expires_at_ms: int
    """Until when the room is reserved, Unix milliseconds."""
    alternatives: tuple[RefusedAlternative, ...] = ()
    """Other plans that were refused."""
    placement: Placement | None = None
    """Where the preemptor will be."""
    inline: bool = False
    """False: placement changes no plan. Older records may have true."""
    followers: int = 0
    """Others of its queue behind the preemptor for which there was room."""


class EvictionPlanRefused(PlanFact, frozen=True, kw_only=True):
    """Nothing was done."""

    reason: Reason
    """victim-changed, preemptor-changed or no-longer-fits."""
    message: str


class ReservationExpired(PlanFact, frozen=True, kw_only=True):
    """The room is released although the preemptor did not start: the refund."""

    reason: Reason
    """timed-out, preemptor-left or no-longer-fits."""
    message: str
    expired_at_ms: int
    """When it expired, Unix milliseconds."""


class PreemptionRefused(Wire, frozen=True, kw_only=True):
    """No victim is evicted for a workload that waits, and why; told again only when that changes.

    It holds for all that wait in its queue and ask for the same, and for this version of it.
    """

    workload_id: str
    """The preemptor."""
    team: str
    queue: str
    version: int
    """Version of the preemptor that it was told for."""
    obstacle: Obstacle
    """`FitsNow`: what was told before holds no more."""
    message: str
    next_step: str
    evidence: dict[str, int] = msgspec.field(default_factory=dict)
    flavor: str = ""
    """The one that came nearest; empty where the obstacle is of none alone."""
    retry_at_ms: int = 0
    """When time alone may change it; 0 if it does not."""
    cell: int = 0


class IdleReleaseRefused(PlanFact, frozen=True, kw_only=True):
    """An idle workload was not released."""

    reason: Reason
    """workload-changed."""
    message: str
