"""Rows of the read model on their way to the database; `None` in a column keeps what is there."""

from __future__ import annotations

from typing import Final

from services.gateway.app.told_starts import ToldStart
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.events.envelope import Event

EventRow = tuple[int, str, str, str, int, int, str, str, str, str, str]
"""seq, workload id, team, type, version, at_ms, state, reason, message, detail, pod_reason."""
NodeRow = tuple[str, int, int, str, str, int, str, bool, int]
"""name, cell, generation, flavor, pool, gpus, body, removed, changed_at_ms."""
CordonRow = tuple[str, str, str, int, int]
LearnedRow = tuple[str, int, str]
"""node, reason, message, gone_at_ms, at_ms; no reason: it takes work again."""
ShunRow = tuple[str, int, str, int]
"""node, until_ms, message, at_ms; no time: it may be tried."""
DeviceRow = tuple[str, int, str, str, str, int, int]
"""node, gpu, state, rule, message, until_ms, at_ms."""
TrendRow = tuple[str, int, str, bool, float, float, int, str, int]
"""node, gpu, trend, is open, value, limit, since_ms, message, at_ms."""
DisputeRow = tuple[str, str, str, int]
"""node, indexes of GPUs as a JSON array, message, at_ms; no GPU: all take work again."""
HealthRow = tuple[str, int, int, bool, str, int]
"""node, gpu, generation, healthy, reason, changed_at_ms."""
LimitRow = tuple[str, str, int, str, int]
"""name, kind, version, body, changed_at_ms."""
PreemptionRow = tuple[str, str, str, str, str, str, int, bool, str, str, int, str, int | None]
"""plan id, preemptor, its team and queue, flavor, rule, at_ms, inline, victims, alternatives,
followers, and why and when its reservation expired."""
RefusalRow = tuple[str, str, int, int, str]
"""preemptor, its queue and version, at_ms, body."""
GpuUsageRow = tuple[int, str, int, int, str, str, str, str, int, int, int, int, bool, int, str]
"""day, workload id, attempt, resizes, team, queue, namespace, flavor, used, unused, unmeasured,
price, ended, at_ms, purchase."""
WorkClassRow = tuple[int, int, str, str, str, int]
"""week, cell, key, team, body, at_ms."""
BudgetRow = tuple[str, str, int]
"""team, body, at_ms."""
DestinationRow = tuple[str, int, str]
"""name, at_ms, body."""
ExpiredRow = tuple[str, str, int]
"""plan id, reason, at_ms."""
UsageRow = tuple[str, int, int, int]
"""queue, gpu_seconds, at_ms, half_life_ms."""
DebtRow = tuple[str, int, int]
"""node, debt_millionths, at_ms."""


class WorkloadRow:
    """Everything that the facts of one batch say about one workload. Changed in place."""

    __slots__ = (
        "attempt",
        "body_hash",
        "cell",
        "changed_at_ms",
        "charge_cpu_milli",
        "charge_gpu_milli",
        "charge_memory_mib",
        "ended_at_ms",
        "exit_code",
        "expected_ms",
        "flavor",
        "gpu_milli",
        "id",
        "kind",
        "labels",
        "live",
        "message",
        "name",
        "nodes",
        "nodes_gpu_milli",
        "placed_at_ms",
        "placed_pods",
        "placement",
        "pod_reason",
        "pods",
        "priority",
        "priority_class",
        "queue",
        "queued_at_ms",
        "reason",
        "running_at_ms",
        "state",
        "submitted_at_ms",
        "team",
        "version",
    )

    def __init__(self, identifier: str, team: str, at_ms: int) -> None:
        self.id = identifier
        self.team = team
        self.submitted_at_ms = at_ms
        self.live = True
        self.version = -1
        self.state = ""
        self.changed_at_ms = at_ms
        self.name: str | None = None
        self.kind: str | None = None
        self.queue: str | None = None
        self.body_hash: str | None = None
        self.labels: str | None = None
        self.pods: int | None = None
        self.gpu_milli: int | None = None
        self.expected_ms: int | None = None
        self.cell: int | None = None
        self.priority: int | None = None
        self.priority_class: str | None = None
        self.attempt: int | None = None
        self.reason: str | None = None
        self.message: str | None = None
        self.pod_reason: str | None = None
        self.exit_code: int | None = None
        self.flavor: str | None = None
        self.charge_gpu_milli: int | None = None
        self.charge_cpu_milli: int | None = None
        self.charge_memory_mib: int | None = None
        self.nodes: str | None = None
        self.nodes_gpu_milli: str | None = None
        self.placed_pods: int | None = None
        self.placement: str | None = None
        self.queued_at_ms: int | None = None
        self.placed_at_ms: int | None = None
        self.running_at_ms: int | None = None
        self.ended_at_ms: int | None = None

    def change(self, version: int, state: str, at_ms: int, *, live: bool) -> None:
        """A newer state."""
        self.version = version
        self.state = state
        self.changed_at_ms = at_ms
        self.live = live

    def because(self, reason: Reason, message: str, pod_reason: str = "") -> None:
        """Why it is in its state."""
        self.reason, self.message, self.pod_reason = reason.value, message, pod_reason

    def place(self, placement: Placement, text: str) -> None:
        """Where it is now, with what it is charged; `text` is the JSON of it."""
        milli_by_node: dict[str, int] = {}
        for pod in placement.pods:
            milli = sum(share.milli for share in pod.shares)
            milli_by_node[pod.node] = milli_by_node.get(pod.node, 0) + milli
        self.flavor = placement.flavor
        self.charge_gpu_milli = placement.charge.gpu_milli
        self.charge_cpu_milli = placement.charge.cpu_milli
        self.charge_memory_mib = placement.charge.memory_mib
        self.nodes = "{" + ",".join(_quoted(name) for name in milli_by_node) + "}"
        self.nodes_gpu_milli = "{" + ",".join(map(str, milli_by_node.values())) + "}"
        self.placed_pods = len(placement.pods)
        self.placement = text


class ProjectionBatch:
    """The rows that one batch of facts comes to."""

    __slots__ = (
        "budgets",
        "cordons",
        "debts",
        "destinations",
        "devices",
        "disputes",
        "events",
        "expired",
        "gpu_usage",
        "health",
        "learned",
        "limits",
        "next_seq",
        "nodes",
        "preemptions",
        "refusals",
        "shuns",
        "specs",
        "told_starts",
        "trends",
        "usage",
        "work_classes",
        "workloads",
    )

    def __init__(self, next_seq: int) -> None:
        self.next_seq = next_seq
        self.workloads: dict[str, WorkloadRow] = {}
        self.specs: dict[str, str] = {}
        self.events: list[EventRow] = []
        self.nodes: dict[str, NodeRow] = {}
        self.cordons: dict[str, CordonRow] = {}
        self.shuns: dict[str, ShunRow] = {}
        self.disputes: dict[str, DisputeRow] = {}
        self.devices: dict[tuple[str, int], DeviceRow] = {}
        self.trends: dict[tuple[str, int, str], TrendRow] = {}
        self.health: dict[tuple[str, int], HealthRow] = {}
        self.learned: dict[str, LearnedRow] = {}
        self.limits: dict[str, LimitRow] = {}
        self.usage: dict[str, UsageRow] = {}
        self.gpu_usage: dict[tuple[int, str, int, int], GpuUsageRow] = {}
        self.work_classes: dict[tuple[int, int, str], WorkClassRow] = {}
        self.debts: dict[str, DebtRow] = {}
        self.preemptions: dict[str, PreemptionRow] = {}
        self.refusals: dict[str, RefusalRow | None] = {}
        """None: what was told of it is forgotten."""
        self.expired: dict[str, ExpiredRow] = {}
        self.told_starts: dict[tuple[str, str], ToldStart] = {}
        self.budgets: dict[str, BudgetRow] = {}
        self.destinations: dict[str, DestinationRow] = {}

    def workload(self, identifier: str, team: str, at_ms: int) -> WorkloadRow:
        """The one row of the workload in this batch."""
        row = self.workloads.get(identifier)
        if row is None:
            row = self.workloads[identifier] = WorkloadRow(identifier, team, at_ms)
        return row

    def note(
        self,
        event: Event,
        workload_id: str,
        team: str,
        version: int,
        state: str,
        *,
        reason: Reason = Reason.NONE,
        message: str = "",
        detail: str = "",
        pod_reason: str = "",
    ) -> None:
        """One more event for the streams and for `why`."""
        self.events.append(
            (
                self.next_seq,
                workload_id,
                team,
                event.type,
                version,
                event.time_ms,
                state,
                reason.value,
                message,
                detail,
                pod_reason,
            )
        )
        self.next_seq += 1


def _quoted(name: str) -> str:
    """An element of a PostgreSQL array literal."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


COLUMNS: Final[tuple[tuple[str, str], ...]] = (
    ("id", "text"),
    ("team", "text"),
    ("submitted_at_ms", "bigint"),
    ("live", "boolean"),
    ("version", "bigint"),
    ("state", "text"),
    ("changed_at_ms", "bigint"),
    ("name", "text"),
    ("kind", "text"),
    ("queue", "text"),
    ("body_hash", "text"),
    ("labels", "jsonb"),
    ("pods", "integer"),
    ("gpu_milli", "bigint"),
    ("expected_ms", "bigint"),
    ("cell", "integer"),
    ("priority", "bigint"),
    ("priority_class", "text"),
    ("attempt", "integer"),
    ("reason", "text"),
    ("message", "text"),
    ("pod_reason", "text"),
    ("exit_code", "integer"),
    ("flavor", "text"),
    ("charge_gpu_milli", "bigint"),
    ("charge_cpu_milli", "bigint"),
    ("charge_memory_mib", "bigint"),
    ("nodes", "text[]"),
    ("nodes_gpu_milli", "bigint[]"),
    ("placed_pods", "integer"),
    ("placement", "text"),
    ("queued_at_ms", "bigint"),
    ("placed_at_ms", "bigint"),
    ("running_at_ms", "bigint"),
    ("ended_at_ms", "bigint"),
)
"""Columns of `gateway.workload` with their types, in the order of the upsert."""
ONCE: Final = frozenset(
    ("name", "kind", "body_hash", "labels", "pods", "gpu_milli", "expected_ms", "cell")
)
"""Never change: taken from whichever fact has them."""
TOLD: Final = frozenset(("priority_class",))
"""Told by some facts alone: the newest of them holds, whatever is told later without it."""
TIMES: Final = frozenset(("queued_at_ms", "placed_at_ms", "running_at_ms", "ended_at_ms"))
"""Only grow, in whatever order the facts come."""
