"""What `why` answers: the reason, and everything that a person asks next."""

from __future__ import annotations

from typing import Any

from services.gateway.queue_views import BudgetSpent
from services.gateway.views import View
from shared.core.lifecycle import State
from shared.core.units import Resources


class WhyEntry(View, frozen=True, kw_only=True):
    """One recorded reason."""

    reason: str
    message: str
    next_step: str
    evidence: dict[str, Any]
    at_ms: int


class Neighbour(View, frozen=True, kw_only=True):
    """Another workload; of another team's neither id nor name are told."""

    id: str
    name: str
    team: str
    priority: int
    gpu_milli: int


class QueuePlace(View, frozen=True, kw_only=True):
    """The place among those that wait in the queue, from 1; `first` are those at its head."""

    queue: str
    place: int
    waiting: int
    gpu_milli_ahead: int
    """What those ahead ask for."""
    first: tuple[Neighbour, ...]


class LimitLevel(View, frozen=True, kw_only=True):
    """The queue or a cohort above it in one flavor."""

    name: str
    kind: str
    flavor: str
    nominal: Resources
    used: Resources
    """By a cohort's members: above what each of them owns and never lends."""
    available: Resources
    """What may still be taken here; less than nothing where a quota was lowered."""
    borrowed: Resources
    lent: Resources
    total_nominal: Resources
    """With all that is below it; of a queue its nominal quota."""
    total_used: Resources
    """With all that is below it, also what members use of what they never lend."""
    blocks: bool
    """Whether this is what keeps the workload from being tried in the flavor."""
    lacks: tuple[str, ...] = ()
    """Then of which resources too little is left here: gpu_milli, cpu_milli, memory_mib."""


class Freeing(View, frozen=True, kw_only=True):
    """A workload that is expected to end or is being stopped, and what it then gives back."""

    workload: Neighbour
    flavor: str
    charge: Resources
    ends_at_ms: int
    """What is being stopped has gone by then at the latest: it is the end of its grace."""
    state: State
    """running, evicting or cancelling. Whose room is kept for another is left out."""


class NoEvictionView(View, frozen=True, kw_only=True):
    """Why nobody is evicted for it, told when that changed; of it or of one that asks the same."""

    obstacle: str
    message: str
    next_step: str
    evidence: dict[str, int]
    flavor: str
    """The one that came nearest; empty where the obstacle is of none alone."""
    retry_at_ms: int | None
    """When time alone may change it."""
    at_ms: int


class OwedTurn(View, frozen=True, kw_only=True):
    """The queue, or the first cohort above it, for whose debt others go first by share."""

    name: str
    kind: str
    share_millionths: int
    debt_millionths: int
    debt_told_at_ms: int
    queues_ahead: int
    """Others with work of its priority that waits, and less of share and debt together."""
    message: str
    """The same in words, with what pays it back."""


class Preemptor(View, frozen=True, kw_only=True):
    """For whom the workload had to go the last time, and by which rule."""

    plan_id: str
    rule: str
    workload_id: str
    team: str
    queue: str
    message: str
    at_ms: int
    back_at_ms: int | None
    """When its room is expected to be free again."""


class Why(View, frozen=True, kw_only=True):
    """Why a workload stands where it stands: the reason, in words, and what would unblock it."""

    id: str
    state: State
    reason: str
    message: str
    next_step: str
    evidence: dict[str, Any]
    since: int
    """When the reason was told, in Unix milliseconds."""
    state_since: int
    """When it came into its state."""
    history: tuple[WhyEntry, ...]
    at_ms: int | None
    """The moment in the past that was asked about; null for now. Then only what was recorded is
    told: place, limits and who ends next are those of now, or null and empty."""
    place: QueuePlace | None
    limits: tuple[LimitLevel, ...]
    """From the queue to the root of its tree, in each flavor of the queue that it may use."""
    spot_left_out: tuple[str, ...]
    """Flavors of the queue that it may not use because they are spot and it does not save
    checkpoints, or is not preemptible."""
    budget: BudgetSpent | None
    """Of its team, from 80 % on. A full one holds beside the limits, as its `at_limit` says."""
    frees_next: tuple[Freeing, ...]
    owed: str
    """That its queue owns enough for it, and how it gets its room; empty where it must borrow."""
    no_eviction: NoEvictionView | None
    """Null too where nobody was looked for, or others are going for it."""
    turn: OwedTurn | None
    """Null too where it need not borrow, or no debt lets others go first."""
    promised_start_ms: int | None
    preempted_by: Preemptor | None


class VictimView(View, frozen=True, kw_only=True):
    """A workload that had to go, and the GPU time that it would have to compute again.

    Of rule `move` it went on at the nodes of `moves_to` at once; otherwise that is empty.
    """

    workload_id: str
    team: str
    rule: str
    lost_gpu_ms: int
    moves_to: tuple[str, ...] = ()


class AlternativeView(View, frozen=True, kw_only=True):
    """Another way to make room, and why it was not taken."""

    why: str
    victims_count: int
    lost_gpu_ms: int


class PreemptionView(View, frozen=True, kw_only=True):
    """One accepted plan: for whom, by which rule, who went, and what else could have been done.

    Of rule `idle` the victim went for nobody: `workload_id` is empty, the team is its own.
    """

    plan_id: str
    at_ms: int
    rule: str
    flavor: str
    workload_id: str
    team: str
    queue: str
    inline: bool
    """Whether placement made the plan itself, after too many refused ones."""
    victims: tuple[VictimView, ...]
    """Those that the caller may see."""
    victims_count: int
    moved_count: int
    """Of them, those that went on elsewhere at once."""
    lost_gpu_ms: int
    alternatives: tuple[AlternativeView, ...]
    followers: int
    """Workloads of its queue behind `workload_id` for which there was room then too."""
    outcome: str
    """reserved, placed, expired with the reason, or released (idle)."""


class PreemptionPage(View, frozen=True, kw_only=True):
    """A page, the newest first."""

    items: tuple[PreemptionView, ...]
    next_cursor: str
