"""What the gateway answers: one struct for each JSON document, from which OpenAPI is made."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from services.gateway.authorisation import Role
from shared.core.decision import FieldError
from shared.core.lifecycle import State
from shared.core.model import WorkloadSpec
from shared.core.queue_policy import QueuePolicy
from shared.core.units import Resources
from shared.events.strict import ITEMS_MAX, NAME_LENGTH_MAX, TEXT_LENGTH_MAX, strict

SpecRequest = strict(WorkloadSpec)
Name = Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX)]
PODS_MAX = 1_000_000
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[ -~]+$")]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what comes in."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what goes out; every field is always there."""


class BatchItem(Request, frozen=True, kw_only=True):
    """One submission of a batch; the same key gives the same workload."""

    spec: SpecRequest  # type: ignore[valid-type]  # built at run time
    idempotency_key: IdempotencyKey | None = None


class BatchRequest(Request, frozen=True, kw_only=True):
    """Up to 1,000 submissions, accepted together or not at all."""

    items: Annotated[tuple[BatchItem, ...], Meta(min_length=1, max_length=ITEMS_MAX)]


class EmptyRequest(Request, frozen=True, kw_only=True):
    """No field is needed."""


class ReprioritiseRequest(Request, frozen=True, kw_only=True):
    """The class that the workload shall have from now on."""

    priority_class: Name


class ResizeRequest(Request, frozen=True, kw_only=True):
    """The number of pods that an elastic gang shall have; the same again changes nothing."""

    pods: Annotated[int, Meta(ge=1, le=PODS_MAX)]


class EvictRequest(Request, frozen=True, kw_only=True):
    """An operator's eviction: why, for the owner to read."""

    reason: Text = "operator"


class NodeRequest(Request, frozen=True, kw_only=True):
    """Why a node is cordoned or drained, for those whose work runs there."""

    reason: Text = ""


class NodeCommanded(View, frozen=True, kw_only=True):
    """The command is durable; placement carries it out."""

    name: str
    command: str


class Selection(Request, frozen=True, kw_only=True):
    """Which live workloads of a team are meant; at least one of the fields is needed."""

    labels: Annotated[dict[Name, Name], Meta(max_length=20)] = {}
    ids: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)] = ()
    queue: Name = ""
    state: State | None = None
    team: Name = ""
    """Only for operators; others always mean their own team."""
    priority_class: Name = ""
    """Only for :reprioritise."""
    pods: Annotated[int, Meta(ge=0, le=PODS_MAX)] = 0
    """Only for :resize."""


class KeyRequest(Request, frozen=True, kw_only=True):
    """A new API key of a team; never stronger than the key that makes it."""

    role: Role
    label: Name = ""
    expires_in_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)] | None = None


class Accepted(View, frozen=True, kw_only=True):
    """The submission is durable; `href` shows what becomes of it."""

    id: str
    team: str
    queue: str
    name: str
    state: str
    href: str


class BatchAnswer(View, frozen=True, kw_only=True):
    """The answer to one submission of a batch: 202, or 422 where the key was used before."""

    id: str
    status: int
    state: str
    href: str


class BatchAccepted(View, frozen=True, kw_only=True):
    """One answer for each item, in order."""

    items: tuple[BatchAnswer, ...]


class DryRun(View, frozen=True, kw_only=True):
    """What would become of the submission; nothing was changed."""

    dry_run: bool
    valid: bool
    state: str
    queue: str
    priority: int
    reason: str
    message: str
    errors: tuple[FieldError, ...]
    spec: WorkloadSpec | None


class Commanded(View, frozen=True, kw_only=True):
    """The command is durable; `state` is what the workload was when it was given."""

    id: str
    command: str
    state: str
    href: str


class BulkCommanded(View, frozen=True, kw_only=True):
    """The workloads that got the command; `more` says to ask again for the rest."""

    command: str
    ids: tuple[str, ...]
    more: bool


class WorkloadSummary(View, frozen=True, kw_only=True):
    """A workload as a list shows it. Times are Unix milliseconds, null until they happened."""

    id: str
    team: str
    queue: str
    name: str
    kind: str
    state: State
    version: int
    priority: int | None
    pods: int | None
    gpu_milli: int | None
    labels: dict[str, str]
    attempt: int
    flavor: str
    nodes: tuple[str, ...]
    reason: str
    message: str
    submitted_at_ms: int
    queued_at_ms: int | None
    placed_at_ms: int | None
    running_at_ms: int | None
    ended_at_ms: int | None


class WorkloadView(WorkloadSummary, frozen=True, kw_only=True):
    """A workload with its spec (defaults filled once queued) and where its pods are."""

    cell: int
    charge: Resources | None
    spec: WorkloadSpec | None
    placement: msgspec.Raw


class WorkloadPage(View, frozen=True, kw_only=True):
    """A page, the newest first; `next_cursor` is empty on the last one."""

    items: tuple[WorkloadSummary, ...]
    next_cursor: str


class EventView(View, frozen=True, kw_only=True):
    """Something that happened; `id` is the place to go on from."""

    id: int
    workload_id: str
    team: str
    type: str
    version: int
    at_ms: int
    state: str
    reason: str
    message: str
    detail: msgspec.Raw


class EventPage(View, frozen=True, kw_only=True):
    """Events in order; ask again with `after` = `next_after`."""

    items: tuple[EventView, ...]
    next_after: int


class GpuView(View, frozen=True, kw_only=True):
    """One device of a node with who holds how much of it."""

    index: int
    uuid: str
    memory_mib: int
    mig: bool
    healthy: bool
    used_milli: int
    used_mask: int
    workloads: tuple[str, ...]


class NodeSummary(View, frozen=True, kw_only=True):
    """A node as a list shows it."""

    name: str
    cell: int
    flavor: str
    product: str
    pool: str
    zone: str
    block: str
    rack: str
    nvlink_domain: str
    driver: str
    cuda: str
    ready: bool
    cordoned: bool
    taints: tuple[str, ...]
    cpu_milli: int
    memory_mib: int
    gpus: int
    used_gpu_milli: int
    unhealthy_gpus: tuple[int, ...]
    removed: bool


class NodeView(NodeSummary, frozen=True, kw_only=True):
    """A node with its devices."""

    devices: tuple[GpuView, ...]


class NodePage(View, frozen=True, kw_only=True):
    """A page of nodes by name."""

    items: tuple[NodeSummary, ...]
    next_cursor: str


class FlavorUse(View, frozen=True, kw_only=True):
    """Quota and use of a queue in one flavor; null is unlimited."""

    flavor: str
    nominal: Resources
    borrowing_limit: Resources | None
    lending_limit: Resources | None
    used: Resources
    borrowed: Resources
    """Of what is used, the part above its own quota."""
    lent: Resources
    """Of what it owns and does not use, the part that others of its cohort use."""
    available: Resources
    """What it may still take now, of its own and of the cohort's."""


class BudgetView(View, frozen=True, kw_only=True):
    """What the team has spent of its budget of the month when it was last warned."""

    month: str
    threshold_percent: int
    at_limit: str
    spent_gpu_milli_hours: int
    limit_gpu_milli_hours: int | None
    spent_microdollars: int
    limit_microdollars: int | None


class QueueView(View, frozen=True, kw_only=True):
    """A queue: the applied document, what is in force, and what is in it now."""

    name: str
    version: int
    team: str
    cohort: str
    strict: bool
    held: bool
    draining: bool
    weight: int
    policy: QueuePolicy
    flavors: tuple[FlavorUse, ...]
    waiting: int
    waiting_gpu_milli: int
    workloads: dict[str, int]
    """Live workloads by state."""
    waiting_reasons: dict[str, int]
    limits_in_force: int
    """Version of the document by which quota decides now; 0 until it has taken one up."""
    share_millionths: int
    """Weighted dominant share of what its cohort owns, above its own; who has less goes first."""
    usage_gpu_seconds: int
    """Use over time, older use counting less; decides between equal shares."""
    usage_half_life_ms: int
    """0: nothing was told yet."""
    budget: BudgetView | None


class QueuePage(View, frozen=True, kw_only=True):
    """All queues that the caller may see."""

    items: tuple[QueueView, ...]
    next_cursor: str


class KeyView(View, frozen=True, kw_only=True):
    """An API key without its secret."""

    prefix: str
    team: str
    role: Role
    label: str
    created_by: str
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


class KeyPage(View, frozen=True, kw_only=True):
    """All keys of a team."""

    items: tuple[KeyView, ...]
    next_cursor: str


class NewKeyView(View, frozen=True, kw_only=True):
    """A new key; `key` is shown this once."""

    key: str
    prefix: str
    team: str
    role: Role
    label: str
    expires_at_ms: int | None


class KafkaUserView(View, frozen=True, kw_only=True):
    """How a team connects to Kafka; `password` is shown this once."""

    bootstrap: str
    security_protocol: str
    mechanism: str
    user: str
    password: str
    submissions_topic: str
    """Where it may write."""
    results_topic: str
    """Where it may read."""
    consumer_group: str
    """The one group that it may use."""
