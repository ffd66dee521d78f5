"""Facts of the gateway about what administrators applied: full documents with a version."""

from __future__ import annotations

import msgspec

from shared.core.model.team_policy import Budget, IdlePolicy
from shared.core.model.units import Resources
from shared.core.quota.prices import DatedPrice, Price, Purchase, purchase_of, schedule
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.quotas import FlavorQuota
from shared.events.workloads import Wire


class DocumentDeleted(Wire, frozen=True, kw_only=True):
    """A document is no more. Made again, it goes on with the version after this one."""

    kind: str
    """team | queue | cohort | flavor | priority_class | notification."""
    name: str
    """Of the document."""
    version: int
    """The version after the last that was applied."""


class QueueClosed(Wire, frozen=True, kw_only=True):
    """A queue is deleted, and admission lets nothing into it any more.

    Told behind all that was queued in it, on the same topic.
    """

    queue: str
    """The queue's name."""
    version: int
    """Of its deletion."""
    cell: int = 0
    """The cell of the admission that tells it."""


class TeamApplied(Wire, frozen=True, kw_only=True):
    """A team: its default queue, ceilings and budget, and the maxima and defaults of a pod."""

    name: str
    """Name of the team, a DNS-1123 label."""
    version: int
    default_queue: str
    priority_classes: tuple[str, ...] = ()
    """Classes that the team may use; empty means all that are not protected."""
    default_pod: Resources = Resources(cpu_milli=4000, memory_mib=16384)
    """CPU and memory of a pod that names none."""
    max_pod: Resources = Resources(gpu_milli=16_000, cpu_milli=512_000, memory_mib=8_388_608)
    """The most that one pod may ask for."""
    max_pending: int = 1_000_000
    """Workloads that have not ended at most."""
    kafka: bool = True
    """Whether the team has a submissions topic of its own."""
    kafka_events: bool = False
    """Whether its results topic tells, beside answers, what becomes of all its work."""
    budget: Budget | None = None
    """What the team may spend in a month; None is no budget."""
    loss_gpu_seconds_per_hour: int | None = None
    """Work that preemption may destroy in an hour at most; None is no limit."""
    idle: IdlePolicy | None = None
    """What becomes of its idle work; None leaves it alone."""
    namespace: str = ""
    """Where the pods of its work are; empty: the namespace that is named as the team."""
    service_account: str = ""
    """Service account of its pods; empty: the namespace's default, without a token."""
    kubernetes: dict[str, str] = msgspec.field(default_factory=dict)
    """Users and groups of the cluster that log in with its tokens, user:NAME or group:NAME, each
    with its role: viewer, member or admin."""


class PriorityClassApplied(Wire, frozen=True, kw_only=True):
    """A priority class: a larger value runs first; protected ones are never preempted."""

    name: str
    """Name of the class, a DNS-1123 label."""
    version: int
    value: int
    """Its priority; work of the larger goes first."""
    protected: bool = False
    """Whether its work is never evicted for other work."""
    kinds: tuple[str, ...] = ()
    """Kinds for which this is the default class."""


class FlavorApplied(Wire, frozen=True, kw_only=True):
    """A kind of GPU node that quota is counted in; nodes name it in their `flavor`."""

    name: str
    """Name of the flavor, a DNS-1123 label."""
    version: int
    products: tuple[str, ...] = ()
    """Product names of its nodes, as nodes report them; empty: any."""
    spot: bool = False
    """Whether its nodes may be taken away by their owner."""
    price_microdollars_per_gpu_hour: int = 0
    """Price of a GPU-hour in millionths of a dollar, until the first of `prices`."""
    purchase: Purchase | None = None
    """How its GPUs are paid for; null: as spot where it is that, else on demand."""
    prices: tuple[DatedPrice, ...] = ()
    """Prices from times on, in any order; what is held keeps the price of its begin."""

    def prices_from(self, applied_at_ms: int) -> list[Price]:
        """What this version says from when it is applied, the earliest first."""
        first = Price(
            version=self.version,
            applied_at_ms=applied_at_ms,
            microdollars_per_gpu_hour=self.price_microdollars_per_gpu_hour,
            purchase=purchase_of(self.purchase, spot=self.spot),
        )
        return schedule(first, self.prices)


class QueueApplied(Wire, frozen=True, kw_only=True):
    """A cluster queue of one team: its quota by flavor, in order of preference."""

    name: str
    """Name of the queue, a DNS-1123 label."""
    version: int
    team: str
    """Team that submits to it; it cannot be changed."""
    cohort: str = ""
    strict: bool = False
    held: bool = False
    """Nothing of it is started; what runs stays."""
    weight: int = 1
    flavors: tuple[FlavorQuota, ...] = ()
    draining: bool = False
    """Held, and what runs is evicted with reason `drained`; it waits until the queue is opened."""
    policy: QueuePolicy = QueuePolicy()
    """What it may take from others, and others from it."""


class CohortApplied(Wire, frozen=True, kw_only=True):
    """A node of the quota tree above queues."""

    name: str
    """Name of the cohort, a DNS-1123 label."""
    version: int
    parent: str = ""
    weight: int = 1
    flavors: tuple[FlavorQuota, ...] = ()


class NotificationApplied(Wire, frozen=True, kw_only=True):
    """A destination that is told of events. What signs or addresses in secret is never in it."""

    name: str
    """Name of the destination, a DNS-1123 label."""
    version: int
    format: str = "webhook"
    """webhook (Standard Webhooks, signed) | slack."""
    url: str = ""
    """Where it is sent to; empty: what `url_from` holds."""
    url_from: str = ""
    """Name of the secret that holds the URL, where the URL itself is a key, as Slack's is."""
    secret: str = ""
    """Name of the secret that signs; a webhook has one."""
    team: str = ""
    """Team that it is told of; empty: all teams and the fleet."""
    events: tuple[str, ...] = ()
    """Kinds of events that it is told; empty: all."""
    min_severity: str = "info"
    """info | warning | critical: what is less serious is not told."""
    digest_seconds: int = 0
    """So long the first waits for others, and all go as one; 0: each goes at once."""


Applied = TeamApplied | PriorityClassApplied | FlavorApplied | QueueApplied | CohortApplied
"""What is kept by version where quota and admission are decided."""


def emptied(deleted: DocumentDeleted) -> Applied:
    """What is in force of a deleted document where documents are kept by version: nothing."""
    name, version = deleted.name, deleted.version
    match deleted.kind:
        case "team":
            return TeamApplied(name=name, version=version, default_queue="", kafka=False)
        case "queue":
            return QueueApplied(name=name, version=version, team="", held=True)
        case "cohort":
            return CohortApplied(name=name, version=version)
        case "flavor":
            return FlavorApplied(name=name, version=version)
        case _:
            return PriorityClassApplied(name=name, version=version, value=0)
