"""The read model: turns facts into the rows that reads and event streams are answered from.

A handler without memory but the number of the last event: each batch becomes one upsert by
table. Several facts about one workload in a batch are merged first, because a statement may not
touch a row twice. Facts may come in any order between topics: what changes is taken from the
newest version, what never changes from whichever fact has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from services.gateway.projection import (
    projection_fleet,
    projection_idle,
    projection_plans,
    projection_quota,
    projection_usage,
    projection_workloads,
)
from services.gateway.projection.projection_rows import ProjectionBatch
from services.gateway.projection.projection_sql import writes
from shared.events import idleness, nodes, notifications, plans, quotas, usage, workloads
from shared.events.envelope import Event, Received
from shared.events.topics import (
    CELL_PARTITIONS,
    HEALTH_FACTS,
    IDLENESS_FACTS,
    NODE_FACTS,
    NOTIFICATION_FACTS,
    PREEMPTION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome
from shared.runtime.trimming import Trim

READ: Final = (
    QUEUE_FACTS,
    QUOTA_FACTS,
    WORKLOAD_FACTS,
    NODE_FACTS,
    HEALTH_FACTS,
    IDLENESS_FACTS,
    PREEMPTION_FACTS,
    NOTIFICATION_FACTS,
)


class Projection:
    """Handler of the projection process."""

    name = "gateway"
    linger_seconds = 0.05

    def __init__(self, trims: Sequence[Trim] = ()) -> None:
        self.trims = trims
        self._next_seq = 1
        self._refused: dict[str, int] = {}
        """Versions of the workloads for which the reason of no eviction is told."""

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Every fact of every cell."""
        cells = range(CELL_PARTITIONS)
        return [(topic, cells) for topic in READ]

    def reads(self) -> Collection[type[Wire]]:
        """The facts that have rows."""
        return APPLY

    async def load(self, reader: Reader) -> None:
        """Go on with the number after the last event, and with what is told of evictions."""
        rows = await reader.fetch("SELECT coalesce(max(seq), 0) + 1 AS seq FROM gateway.event")
        self._next_seq = rows[0]["seq"]
        told = await reader.fetch("SELECT workload_id, version FROM gateway.preemption_refusal")
        self._refused = {row["workload_id"]: row["version"] for row in told}

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Nothing to look up."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:  # noqa: ARG002  # facts have times
        """The rows after `messages`."""
        batch = ProjectionBatch(self._next_seq)
        for message in messages:
            event = message.event
            apply = APPLY.get(type(event.payload))
            if apply is not None:
                apply(batch, event, event.payload)
        projection_plans.forget(batch, self._refused)
        self._next_seq = batch.next_seq
        return Outcome(writes=writes(batch))

    def due(self, now_ms: int) -> Sequence[Received]:  # noqa: ARG002
        """It has no deadlines."""
        return ()

    def next_due_ms(self) -> int | None:
        """It has no deadlines."""
        return None


APPLY: Final[dict[type[Wire], Callable[[ProjectionBatch, Event, Any], None]]] = {
    workloads.WorkloadQueued: projection_workloads.queued,
    workloads.WorkloadRejected: projection_workloads.rejected,
    workloads.SubmissionConflicted: projection_workloads.conflicted,
    workloads.CancelWorkload: projection_workloads.commanded,
    workloads.HoldWorkload: projection_workloads.commanded,
    workloads.ReleaseWorkload: projection_workloads.commanded,
    workloads.ReprioritiseWorkload: projection_workloads.commanded,
    workloads.ResizeWorkload: projection_workloads.commanded,
    workloads.RequestEviction: projection_workloads.commanded,
    workloads.WorkloadPlaced: projection_workloads.placed,
    workloads.WorkloadBound: projection_workloads.fact,
    workloads.WorkloadRunning: projection_workloads.running,
    workloads.WorkloadResized: projection_workloads.resized,
    workloads.WorkloadSucceeded: projection_workloads.ended,
    workloads.WorkloadFailed: projection_workloads.ended,
    workloads.WorkloadCancelled: projection_workloads.ended,
    workloads.WorkloadCancelling: projection_workloads.fact,
    workloads.WorkloadEvicted: projection_workloads.evicted,
    workloads.WorkloadRequeued: projection_workloads.back,
    workloads.WorkloadHeld: projection_workloads.back,
    workloads.WorkloadReleased: projection_workloads.back,
    workloads.WorkloadReprioritised: projection_workloads.fact,
    workloads.PlacementRefused: projection_workloads.refused,
    quotas.QuotaRefused: projection_workloads.refused,
    plans.EvictionPlanAccepted: projection_plans.accepted,
    plans.EvictionPlanRefused: projection_plans.refused,
    plans.ReservationExpired: projection_plans.expired,
    plans.PreemptionRefused: projection_plans.none_possible,
    idleness.IdlenessNoticed: projection_idle.noticed,
    idleness.IdlenessEnded: projection_idle.ended,
    usage.UsageTold: projection_usage.told,
    usage.WorkClassesTold: projection_usage.like_work,
    quotas.QuotaChanged: projection_quota.limits,
    quotas.QueueUsageTold: projection_quota.usage,
    quotas.DebtsTold: projection_quota.debts,
    notifications.DestinationTold: projection_quota.destination,
    quotas.BudgetTold: projection_quota.budget,
    quotas.BudgetWarned: projection_quota.warned,
    nodes.NodeInventoryReported: projection_fleet.node,
    nodes.NodeRemoved: projection_fleet.node_removed,
    nodes.GpuHealthReported: projection_fleet.health,
    nodes.NodeCordoned: projection_fleet.cordoned,
    nodes.NodeUncordoned: projection_fleet.uncordoned,
    nodes.NodeShunned: projection_fleet.shunned,
    nodes.NodeUnshunned: projection_fleet.unshunned,
    nodes.NodeDevicesDisputed: projection_fleet.disputed,
    nodes.DeviceHealthChanged: projection_fleet.device,
    nodes.TrendFound: projection_fleet.trend_found,
    nodes.TrendEnded: projection_fleet.trend_ended,
    nodes.NodeDevicesSettled: projection_fleet.settled,
    nodes.NodeDevicesLearned: projection_workloads.learned,
}
"""Facts that change the read model; a nomination changes no state and is passed over."""
