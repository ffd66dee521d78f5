"""What `why` answers: the reason, and everything that a person asks next."""

from __future__ import annotations

from typing import Any

from services.gateway.http.views import View
from services.gateway.queues.queue_views import BudgetSpent
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.core.preemption.eligibility.plan import Obstacle


class WhyEntry(View, frozen=True, kw_only=True):
    """One recorded reason."""

    reason: Reason
    message: str
    pod_reason: str
    next_step: str
    evidence: dict[str, Any]
    at_ms: int
    """When it was told, Unix milliseconds."""


class Neighbour(View, frozen=True, kw_only=True):
    """Another workload; of another team's neither id nor name are told."""

    id: str
    """Id of the workload; empty where it is another team's."""
    name: str
    """Name of the workload; empty where it is another team's."""
    team: str
    priority: int
    gpu_milli: int
    """What it asks for, in thousandths of a GPU."""


class QueuePlace(View, frozen=True, kw_only=True):
    """The place among those that wait in the queue, from 1; `first` are those at its head."""

    queue: str
    place: int
    """Place in the order of the queue, from 1."""
    waiting: int
    """Number of workloads that wait in the queue."""
    gpu_milli_ahead: int
    """What those ahead ask for."""
    first: tuple[Neighbour, ...]
    """Those at the head of the queue."""


class LimitLevel(View, frozen=True, kw_only=True):
    """The queue or a cohort above it in one flavor."""

    name: str
    """Name of the queue or cohort."""
    kind: str
    """queue or cohort."""
    flavor: str
    nominal: Resources
    """What it owns."""
    used: Resources
    """By a cohort's members: above what each of them owns and never lends."""
    available: Resources
    """What may still be taken here; less than nothing where a quota was lowered."""
    borrowed: Resources
    """Of what is used, the part above its own quota."""
    lent: Resources
    """Of what it owns and does not use, the part that others use."""
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
    """The workload that ends."""
    flavor: str
    charge: Resources
    """What it gives back."""
    ends_at_ms: int
    """What is being stopped has gone by then at the latest: it is the end of its grace."""
    state: State
    """running, evicting or cancelling. A workload with its room kept for another is left out."""


class NoEvictionView(View, frozen=True, kw_only=True):
    """Why no victim is evicted for it, told on change; of it or of one that asks the same."""

    obstacle: Obstacle
    """Code of what stands in the way."""
    message: str
    next_step: str
    evidence: dict[str, int]
    flavor: str
    """The one that came nearest; empty where the obstacle is of none alone."""
    retry_at_ms: int | None
    """When time alone may change it."""
    at_ms: int
    """When it was told, Unix milliseconds."""


class OwedTurn(View, frozen=True, kw_only=True):
    """The queue, or the first cohort above it, with the debt that lets others go first."""

    name: str
    """Name of the queue or cohort."""
    kind: str
    """queue or cohort."""
    share_millionths: int
    debt_millionths: int
    """What it had lately beyond its part, in millionths; it counts beside the share."""
    debt_told_at_ms: int
    """When the debt was told, Unix milliseconds."""
    queues_ahead: int
    """Others with work of its priority that waits, and less of share and debt together."""
    message: str
    """The same in words, with what pays it back."""


class Preemptor(View, frozen=True, kw_only=True):
    """The preemptor of the workload's last preemption, and the rule."""

    plan_id: str
    rule: str
    workload_id: str
    """Id of the workload that got the room."""
    team: str
    """Its team."""
    queue: str
    """Its queue."""
    message: str
    at_ms: int
    """When the eviction began, Unix milliseconds."""
    back_at_ms: int | None
    """When its room is expected to be free again."""


class LastEviction(View, frozen=True, kw_only=True):
    """That it had to leave its nodes the last time, and why."""

    reason: Reason
    """Such as drained, moved, preempted, operator, idle, held, node-lost."""
    message: str
    pod_reason: str
    note: str
    """What the operator gave as reason; empty without one."""
    at_ms: int
    """When it was told to stop, Unix milliseconds."""


class Why(View, frozen=True, kw_only=True):
    """Why a workload stands where it stands: the reason, in words, and what would unblock it."""

    id: str
    state: State
    reason: Reason
    """Code of the one reason that counts most."""
    message: str
    pod_reason: str
    next_step: str
    evidence: dict[str, Any]
    since: int
    """When the reason was told, in Unix milliseconds."""
    state_since: int
    """When it came into its state."""
    recorded: WhyEntry | None
    """What was recorded, where `reason` is what the numbers of now say instead of it."""
    history: tuple[WhyEntry, ...]
    """Recorded reasons, the newest first."""
    at_ms: int | None
    """The moment in the past that was asked about; null for now. Then only what was recorded is
    told: place, limits and next expected ends are those of now, or null and empty."""
    place: QueuePlace | None
    """Its place in the queue; null where it does not wait there."""
    limits: tuple[LimitLevel, ...]
    """From the queue to the root of its tree, in each flavor of the queue that it may use."""
    spot_left_out: tuple[str, ...]
    """Flavors of the queue that it may not use because they are spot and it does not save
    checkpoints, or is not preemptible."""
    budget: BudgetSpent | None
    """Of its team, from 80 % on. A full one holds beside the limits, as its `at_limit` says."""
    frees_next: tuple[Freeing, ...]
    """Workloads that give back next what it can use."""
    owed: str
    """That its queue owns enough for it, and how it gets its room; empty where it must borrow."""
    no_eviction: NoEvictionView | None
    """Null too where no victims were searched, or others are being evicted for it."""
    turn: OwedTurn | None
    """Null too where it need not borrow, or no debt lets others go first."""
    promised_start_ms: int | None
    """By when it is expected to start, Unix milliseconds; null: nothing is promised."""
    last_eviction: LastEviction | None
    """Why it had to leave its nodes the last time, whatever it does now; null: it never had to."""
    preempted_by: Preemptor | None
    """The preemptor of its last eviction; null: it was not preempted."""


class VictimView(View, frozen=True, kw_only=True):
    """A workload that had to go, and the GPU time that it would have to compute again.

    Of rule `move` it went on at the nodes of `moves_to` at once; otherwise that is empty.
    """

    workload_id: str
    """Id of the workload that was evicted or moved."""
    team: str
    rule: str
    lost_gpu_ms: int
    moves_to: tuple[str, ...] = ()
    """Nodes where it went on at once."""


class AlternativeView(View, frozen=True, kw_only=True):
    """Another way to make room, and why it was not taken."""

    why: str
    """Why it was not taken."""
    victims_count: int
    """Number of workloads that it would have evicted."""
    lost_gpu_ms: int


class PreemptionView(View, frozen=True, kw_only=True):
    """One accepted plan: preemptor, rule, victims, and what else could have been done.

    Of rule `idle` the victim has no preemptor: `workload_id` is empty, the team is its own.
    """

    plan_id: str
    at_ms: int
    """When it was accepted, Unix milliseconds."""
    rule: str
    flavor: str
    workload_id: str
    """Id of the workload that got the room; empty for rule `idle`."""
    team: str
    queue: str
    inline: bool
    """Whether placement made the plan itself, after too many refused ones."""
    victims: tuple[VictimView, ...]
    """Those that the caller may see."""
    victims_count: int
    """Number of all victims."""
    moved_count: int
    """Of them, those that went on elsewhere at once."""
    lost_gpu_ms: int
    alternatives: tuple[AlternativeView, ...]
    """Other plans that were refused."""
    followers: int
    """Workloads of its queue behind `workload_id` for which there was room then too."""
    outcome: str
    """reserved, placed, expired with the reason, or released (idle)."""


class PreemptionPage(View, frozen=True, kw_only=True):
    """A page, the newest first."""

    items: tuple[PreemptionView, ...]
    next_cursor: str
