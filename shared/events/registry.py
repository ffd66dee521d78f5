"""Which type name stands for which payload, and on which topic it travels.

The one list from which the decoder, the JSON Schemas and docs/asyncapi.yaml are made.
"""

from __future__ import annotations

import re
from typing import Final

from shared.events import (
    audits,
    idleness,
    needed_nodes,
    nodes,
    notifications,
    organisation,
    plans,
    pods,
    quotas,
    topics,
    usage,
    workloads,
)
from shared.events.topics import Topic
from shared.events.workloads import Wire

BY_TOPIC: Final[dict[Topic, tuple[type[Wire], ...]]] = {
    topics.SUBMISSION_COMMANDS: (
        workloads.SubmitWorkload,
        workloads.CancelWorkload,
        workloads.HoldWorkload,
        workloads.ReleaseWorkload,
        workloads.ReprioritiseWorkload,
        workloads.ResizeWorkload,
        workloads.RequestEviction,
    ),
    topics.QUEUE_FACTS: (
        workloads.WorkloadQueued,
        workloads.WorkloadRejected,
        workloads.SubmissionConflicted,
        workloads.CancelWorkload,
        workloads.HoldWorkload,
        workloads.ReleaseWorkload,
        workloads.ReprioritiseWorkload,
        workloads.ResizeWorkload,
        workloads.RequestEviction,
        organisation.QueueClosed,
    ),
    topics.ORGANISATION_FACTS: (
        organisation.TeamApplied,
        organisation.PriorityClassApplied,
        organisation.FlavorApplied,
        organisation.QueueApplied,
        organisation.CohortApplied,
        organisation.NotificationApplied,
        organisation.DocumentDeleted,
    ),
    topics.QUOTA_FACTS: (
        quotas.WorkloadNominated,
        quotas.NominationWithdrawn,
        quotas.QuotaRefused,
        quotas.QuotaChanged,
        quotas.QueueUsageTold,
        quotas.DebtsTold,
        quotas.BudgetTold,
        quotas.BudgetWarned,
    ),
    topics.TEAM_FACTS: (quotas.EndedWorkloadsCounted,),
    topics.WORKLOAD_FACTS: (
        workloads.WorkloadPlaced,
        workloads.PlacementRefused,
        workloads.WorkloadBound,
        workloads.WorkloadRunning,
        workloads.WorkloadResized,
        workloads.WorkloadSucceeded,
        workloads.WorkloadFailed,
        workloads.WorkloadCancelled,
        workloads.WorkloadCancelling,
        workloads.WorkloadEvicted,
        workloads.WorkloadRequeued,
        workloads.WorkloadHeld,
        workloads.WorkloadReleased,
        workloads.WorkloadReprioritised,
        plans.EvictionPlanAccepted,
        plans.EvictionPlanRefused,
        plans.ReservationExpired,
        plans.IdleReleaseRefused,
        nodes.NodeCordoned,
        nodes.NodeUncordoned,
        nodes.NodeShunned,
        nodes.NodeUnshunned,
        nodes.NodesKept,
        nodes.NodeDevicesLearned,
        nodes.NodeDevicesDisputed,
        nodes.NodeDevicesSettled,
        nodes.DeviceHealthChanged,
    ),
    topics.PLAN_COMMANDS: (plans.ProposeEvictionPlan, plans.ReleaseIdleWorkload),
    topics.PREEMPTION_FACTS: (plans.PreemptionRefused,),
    topics.NODE_COMMANDS: (
        nodes.CordonNode,
        nodes.UncordonNode,
        nodes.RestoreDevice,
        nodes.FenceNode,
    ),
    topics.POD_COMMANDS: (
        pods.BindWorkload,
        pods.EvictPods,
        pods.ResizePods,
        pods.AskAttempts,
    ),
    topics.POD_FACTS: (
        pods.PodsBound,
        pods.PodsRunning,
        pods.PodsFinished,
        pods.PodsPulling,
        pods.PodsPulled,
        pods.PodDevicesTold,
        pods.PodsUnstarted,
        pods.PodsGone,
        pods.BindRefused,
        pods.PodsResized,
        pods.ResizeRefused,
    ),
    topics.NODE_FACTS: (
        nodes.NodeInventoryReported,
        nodes.GpuHealthReported,
        nodes.HealthEventReported,
        nodes.NodeRemoved,
        nodes.NodeNoticeReported,
    ),
    topics.AGENT_COMMANDS: (nodes.ReconfigureGpu, nodes.CheckGpu),
    topics.USAGE_FACTS: (nodes.GpuUsageReported,),
    topics.GPU_FACTS: (nodes.GpusObserved,),
    topics.HEALTH_FACTS: (
        nodes.NodeSilent,
        nodes.NodeHeard,
        nodes.TrendFound,
        nodes.TrendEnded,
    ),
    topics.IDLENESS_FACTS: (
        idleness.IdlenessNoticed,
        idleness.IdlenessEnded,
        usage.UsageTold,
        usage.WorkClassesTold,
        needed_nodes.NodesNeeded,
    ),
    **dict.fromkeys(topics.AUDIT_FACTS.values(), (audits.AuditSealed,)),
    topics.NOTIFICATION_COMMANDS: (notifications.TryDestination, notifications.TellWeek),
    topics.NOTIFICATION_FACTS: (notifications.DestinationTold,),
}
TEAM_TYPES: Final[tuple[type[Wire], ...]] = (
    workloads.SubmissionAnswered,
    workloads.WorkloadChanged,
    workloads.SubmitWorkload,
)


def type_name(payload: type[Wire]) -> str:
    """`WorkloadPlaced` -> "muster.workload.placed.v1"; the last word is the verb of a fact."""
    words = re.findall(r"[A-Z][a-z]*", payload.__name__)
    return f"muster.{'-'.join(words[:-1]).lower()}.{words[-1].lower()}.v1"


ALL_TYPES: Final = tuple(
    dict.fromkeys(one for group in (*BY_TOPIC.values(), TEAM_TYPES) for one in group)
)
TYPE_BY_NAME: Final = {type_name(one): one for one in ALL_TYPES}
NAME_BY_TYPE: Final = {one: name for name, one in TYPE_BY_NAME.items()}
