"""What the end of a pod means, by the reason that the kubelet or a controller gave.

- The kubelet would not take the pod: it is placed again, no retry is used up, the node rests.
- The pod was taken away: it is placed again, no retry is used up. So it is when its container was
  lost, as when the power of its node was cut: the runtime (`Unknown`) or the kubelet
  (`ContainerStatusUnknown`) then finds a container that ran, and it is unknown how it ended.
- A container cannot be made, and waiting does not help: the workload fails at once, in the
  kubelet's words.
- Anything else: the work failed, and that uses up a retry.

Such a reason is free text, told as `pod_reason` beside the code of ours (recorded_reasons.py).

Source: Kubernetes 1.37, `pkg/kubelet/lifecycle`, `eviction`, `nodeshutdown`, `images`,
`kuberuntime`, `status`, and the condition DisruptionTarget; containerd 1.7, `pkg/cri/store`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class FailureCause(StrEnum):
    """What ended the pods of an attempt."""

    WORK = "work-failed"
    TAKEN_AWAY = "taken-away"
    KUBELET_REFUSED = "kubelet-refused"
    NEVER_STARTS = "never-starts"


_REFUSED: Final = frozenset(
    (
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeShutdown",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "AppArmor",
        "SysctlForbidden",
        "TopologyAffinityError",
    )
)
_OUT_OF: Final = "OutOf"
"""Followed by the resource that the node has not enough of: OutOfcpu, OutOfnvidia.com/gpu."""
_TAKEN_AWAY: Final = frozenset(
    (
        "Evicted",
        "Terminated",
        "Shutdown",
        "Preempting",
        "NodeLost",
        "TerminationByKubelet",
        "DeletionByPodGC",
        "DeletionByTaintManager",
        "EvictionByEvictionAPI",
        "PreemptionByScheduler",
        "Unknown",
        "ContainerStatusUnknown",
    )
)
_NEVER_STARTS: Final = frozenset(
    (
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    )
)


def cause_of_failure(reason: str, *, deleted: bool = False) -> FailureCause:
    """Why a pod failed; `deleted`: it was on its way out when it ended, not by Muster."""
    if reason in _REFUSED or reason.startswith(_OUT_OF):
        return FailureCause.KUBELET_REFUSED
    if deleted or reason in _TAKEN_AWAY:
        return FailureCause.TAKEN_AWAY
    return FailureCause.WORK


def never_starts(waiting: str) -> bool:
    """Whether a container that waits for this reason never runs, however long it waits."""
    return waiting in _NEVER_STARTS
