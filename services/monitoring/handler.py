"""The monitoring service: every fact becomes a cost row, a change in memory, or a count.

Reports of use tell which work is idle (`idle.py`), which nodes fell silent (`silence.py`) and
which devices slowly change for the worse (`trends/`), and where GPU-hours go (`use.py`). Those it
tells others, and how many more nodes are needed (`needed.py`); nothing else.

Pod facts and nominations are not read: whatever they lead to is in the facts of placement, and
each message read costs an inbox row. Counters are moved only after the commit, so a batch that is
decided again is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from services.monitoring import fleet, metrics
from services.monitoring.gauges import holders
from services.monitoring.idle import Idle
from services.monitoring.labels import Capped
from services.monitoring.ledger import CostRows
from services.monitoring.memory import DEBT, QUOTA, MonitoringMemory
from services.monitoring.needed import START_MS, NeededNodes
from services.monitoring.records import Debt
from services.monitoring.silence import Silence
from services.monitoring.trends import Trends
from services.monitoring.use import GpuHours
from services.monitoring.workloads import Workloads
from shared.core.telemetry.usage import ReportedUse, problem_of_time, problem_of_use
from shared.events import nodes, organisation, quotas, registry, topics, workloads
from shared.events.envelope import Received
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome

TEAMS_MAX: Final = 200
NODES_MAX: Final = 200
"""Nodes with refused reports that have a label of their own."""

TRANSITIONS: Final = tuple(
    one
    for one in registry.BY_TOPIC[topics.WORKLOAD_FACTS]
    if issubclass(one, workloads.WorkloadFact)
)
OVER: Final = (
    workloads.WorkloadSucceeded,
    workloads.WorkloadFailed,
    workloads.WorkloadCancelled,
)
APART: Final = (
    organisation.FlavorApplied,
    nodes.GpuUsageReported,
    nodes.NodeRemoved,
    nodes.DeviceHealthChanged,
)
"""What is read with its message; all else as the fact alone."""
NONE_WARM: Final[Mapping[str, int]] = {}
Action = Callable[[Any], None]


class MonitoringHandler:
    """One cell's monitoring. `team` caps the labels."""

    name = "monitoring"
    linger_seconds = 0.2
    by_time = True
    """What was used is told on one topic, by what work on another."""

    def __init__(
        self,
        *,
        cell: int = 0,
        node_start_ms: int = START_MS,
        warm_nodes: Mapping[str, int] = NONE_WARM,
    ) -> None:
        self._cell = cell
        self._node_start_ms = node_start_ms
        self._warm_nodes = warm_nodes
        self.team = Capped(TEAMS_MAX)
        self.node = Capped(NODES_MAX)
        self._counts: list[tuple[Callable[[float], None], float]] = []
        self._begin(MonitoringMemory())

    def _begin(self, memory: MonitoringMemory) -> None:
        """Go on from this memory; whatever was not committed is forgotten."""
        self.memory = memory
        self._use = GpuHours(memory, self._cell)
        self._workloads = Workloads(memory, self._use)
        self._rows = CostRows()
        self._idle = Idle(memory, self._cell)
        self._silence = Silence(memory, self._cell)
        self._trends = Trends(memory, self._cell)
        self._needed = NeededNodes(memory, self._cell, self._node_start_ms, self._warm_nodes)
        self._counts.clear()
        self._actions: dict[type, Action] = {
            workloads.WorkloadQueued: self._queued,
            workloads.WorkloadRejected: self._rejected,
            workloads.SubmissionConflicted: self._conflicted,
            workloads.PlacementRefused: self._refused_by_placement,
            quotas.QuotaRefused: self._refused_by_quota,
            quotas.QuotaChanged: self._quota,
            quotas.DebtsTold: self._debts,
            nodes.NodeInventoryReported: lambda fact: fleet.inventory(memory, fact),
            nodes.GpuHealthReported: lambda fact: fleet.health(memory, fact),
            nodes.NodeShunned: lambda fact: fleet.shunned(memory, fact.node, shunned=True),
            nodes.NodeDevicesLearned: self._workloads.learned,
            nodes.NodeCordoned: lambda fact: fleet.cordoned(memory, fact.node, cordoned=True),
            nodes.NodeUncordoned: lambda fact: fleet.cordoned(memory, fact.node, cordoned=False),
            nodes.NodesKept: lambda fact: fleet.kept(memory, fact),
            nodes.NodeUnshunned: lambda fact: fleet.shunned(memory, fact.node, shunned=False),
            organisation.TeamApplied: self._idle.policy,
            organisation.DocumentDeleted: self._deleted,
            **dict.fromkeys(TRANSITIONS, self._changed),
        }

    def topics(self) -> Sequence[tuple[topics.Topic, Sequence[int]]]:
        """Facts of the cell. Being asked means that the last unit is committed."""
        for count, value in self._counts:
            count(value)
        self._counts.clear()
        cell = (self._cell,)
        return [
            (topics.ORGANISATION_FACTS, (0,)),
            (topics.QUEUE_FACTS, cell),
            (topics.QUOTA_FACTS, cell),
            (topics.WORKLOAD_FACTS, cell),
            (topics.NODE_FACTS, cell),
            (topics.USAGE_FACTS, cell),
        ]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return (*APART, *self._actions)

    def expositions(self) -> Mapping[str, Callable[[], str]]:
        """What work holds each GPU."""
        return {holders.PATH: lambda: holders.exposition(self.memory, self.team)}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the journal; gauges read meanwhile never show a part of it."""
        memory = MonitoringMemory()
        await memory.load(reader, f"cell-{self._cell}")
        self._begin(memory)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order; deterministic."""
        del now_ms
        rows = self._rows = CostRows()
        emits: list[Emit] = []
        for message in messages:
            payload = message.event.payload
            if isinstance(payload, organisation.FlavorApplied):
                prices = payload.prices_from(message.event.time_ms)
                rows.price(payload.name, prices)
                self.memory.use.price(payload.name, prices)
                self._needed.flavor(payload)
            elif isinstance(payload, nodes.GpuUsageReported):
                emits += self._used(message, payload)
            elif isinstance(payload, nodes.NodeRemoved):
                fleet.removed(self.memory, payload)
                self._use.removed(payload.node)
                emits += self._silence.removed(message, payload.node)
                emits += self._trends.removed(message, payload.node)
            elif isinstance(payload, nodes.DeviceHealthChanged):
                self._step(message, payload)
            else:
                if isinstance(payload, nodes.NodeInventoryReported):
                    emits += self._trends.inventory(message, payload.node)
                    self._needed.node(payload.node.flavor, len(payload.node.gpus))
                action = self._actions.get(type(payload))
                if action is not None:
                    action(payload)
        emits += self._use.told(messages)
        emits += self._needed.told(messages)
        return Outcome(emits=emits, writes=[*rows.writes(), *self.memory.journal.writes()])

    def due(self, now_ms: int) -> Sequence[Received]:
        """No deadlines."""
        del now_ms
        return ()

    def next_due_ms(self) -> int | None:
        """No deadlines."""
        return None

    def _used(self, message: Received, fact: nodes.GpuUsageReported) -> list[Emit]:
        """A report that cannot be is counted by its node, and is no sign of life."""
        problem = problem_of_use(_arrays(fact)) or problem_of_time(fact.at_ms, message.logged_ms)
        if problem:
            field = problem.partition(":")[0].partition("[")[0]
            self._count(metrics.REPORTS_REFUSED.labels(self.node(fact.node), field).inc)
            return []
        fleet.used(self.memory, fact, message.logged_ms)
        self._use.reported(fact, message.logged_ms)
        trends = self._trends.reported(message, fact)
        for one in trends:
            if isinstance(one.payload, nodes.TrendFound):
                self._count(metrics.TRENDS.labels(one.payload.trend.value).inc)
        told = self._silence.reported(message, fact.node)
        return told + self._idle.reported(message, fact) + trends

    def _step(self, message: Received, fact: nodes.DeviceHealthChanged) -> None:
        fleet.step(self.memory, fact, message.event.time_ms)
        done = "true" if fact.done else "false"
        labels = (fact.before.value, fact.after.value, fact.rule, done)
        self._count(metrics.HEALTH_STEPS.labels(*labels).inc)

    def _deleted(self, deleted: organisation.DocumentDeleted) -> None:
        """Quota tells of its tree; what was priced keeps its price."""
        empty = organisation.emptied(deleted)
        if isinstance(empty, organisation.TeamApplied):
            self._idle.policy(empty)
        elif isinstance(empty, organisation.FlavorApplied):
            self._needed.flavor(empty)

    def _count(self, count: Callable[[float], None], value: float = 1) -> None:
        self._counts.append((count, value))

    def _queued(self, fact: workloads.WorkloadQueued) -> None:
        self._workloads.queued(fact)
        self._answered(fact.workload.team, "accepted")

    def _rejected(self, fact: workloads.WorkloadRejected) -> None:
        self._answered(fact.team, "rejected")

    def _conflicted(self, fact: workloads.SubmissionConflicted) -> None:
        self._answered(fact.team, "conflicted")

    def _answered(self, team: str, answer: str) -> None:
        self._count(metrics.SUBMISSIONS.labels(self.team(team), answer).inc)

    def _refused_by_placement(self, fact: workloads.PlacementRefused) -> None:
        self._workloads.refused(fact)
        self._count(metrics.REFUSALS.labels("placement", fact.reason.value).inc)

    def _refused_by_quota(self, fact: quotas.QuotaRefused) -> None:
        self._workloads.refused(fact)
        self._count(metrics.REFUSALS.labels("quota", fact.reason.value).inc)

    def _quota(self, fact: quotas.QuotaChanged) -> None:
        known = self.memory.quotas.get(fact.name)
        if known is None or fact.version > known.version:
            self.memory.quotas[fact.name] = fact
            self.memory.journal.put(QUOTA, fact.name, fact)

    def _debts(self, fact: quotas.DebtsTold) -> None:
        for name, millionths in fact.debts.items():
            known = self.memory.debts.get(name)
            if known is None or known.at_ms <= fact.at_ms:
                debt = self.memory.debts[name] = Debt(millionths, fact.at_ms)
                self.memory.journal.put(DEBT, name, debt)

    def _changed(self, fact: workloads.WorkloadFact) -> None:
        if isinstance(fact, workloads.WorkloadPlaced):
            self._rows.placed(fact)
        elif isinstance(fact, workloads.WorkloadResized):
            self._rows.resized(fact)
        elif isinstance(fact, workloads.WorkloadReleasedDevices):
            self._rows.released(fact)
        if self._workloads.changed(fact):
            self._observe(fact)

    def _observe(self, fact: workloads.WorkloadFact) -> None:
        if isinstance(fact, workloads.WorkloadPlaced):
            self._count(metrics.PLACEMENTS.labels(fact.placement.flavor).inc)
            if fact.attempt == 1:
                wait_seconds = max(fact.placed_at_ms - fact.submitted_at_ms, 0) / 1000
                child = metrics.QUEUE_WAIT_SECONDS.labels(self.team(fact.team))
                self._count(child.observe, wait_seconds)
        elif isinstance(fact, workloads.WorkloadRunning):
            self._started(fact)
        elif isinstance(fact, workloads.WorkloadEvicted):
            self._count(metrics.EVICTIONS.labels(fact.reason.value).inc)
        elif isinstance(fact, OVER):
            labels = (self.team(fact.team), fact.state.value)
            self._count(metrics.OUTCOMES.labels(*labels).inc)

    def _started(self, fact: workloads.WorkloadRunning) -> None:
        one = self.memory.workloads[fact.workload_id]
        if one.placed_at_ms:
            start_seconds = max(fact.running_at_ms - one.placed_at_ms, 0) / 1000
            self._count(metrics.START_SECONDS.labels(one.flavor).observe, start_seconds)


def _arrays(fact: nodes.GpuUsageReported) -> ReportedUse:
    return ReportedUse(
        utilization_percent=fact.utilization_percent,
        memory_used_mib=fact.memory_used_mib,
        temperature_celsius=fact.temperature_celsius,
        power_watts=fact.power_watts,
        unread=fact.unread,
        instances=[(one.gpu, one.mask, one.utilization_percent) for one in fact.instances],
        sm_clock_mhz=fact.sm_clock_mhz,
        pcie_replays=fact.pcie_replays,
        throttled=fact.throttled,
    )
