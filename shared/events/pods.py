"""Commands of placement to the binder, and the binder's facts about pods.

Pods are named `<workload id>-<attempt>-<rank>`; every message names the attempt, so that a late
fact of an earlier attempt only releases what that attempt held.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shared.core.admission.errors import shown
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, PodSet
from shared.core.model.reason import Reason
from shared.core.nodes.pod_failures import FailureCause
from shared.events.workloads import Wire

EXCEEDED_QUOTA: Final = "ExceededQuota"
"""The pod's own reason of a refusal: the namespace is full; it is tried again."""
NAMESPACE_NOT_FOUND: Final = "NamespaceNotFound"
SERVICE_ACCOUNT_NOT_FOUND: Final = "ServiceAccountNotFound"
WAITED_FOR: Final = frozenset((EXCEEDED_QUOTA, NAMESPACE_NOT_FOUND, SERVICE_ACCOUNT_NOT_FOUND))
"""Pods' own reasons of refusals that an operator mends; the message says all."""


class BindWorkload(Wire, frozen=True, kw_only=True):
    """Create and bind all pods of one attempt, or none."""

    workload_id: str
    team: str
    attempt: int
    epoch: int
    placement: Placement
    pod_sets: tuple[PodSet, ...]
    expected_duration_seconds: int | None = None
    cell: int = 0
    namespace: str = ""
    """Where the pods are; empty: the namespace that is named as the team."""
    service_account: str = ""
    """Service account of the pods; empty: the namespace's default, without a token."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of the workload, for its pods."""
    grace_seconds: int = 30
    """Time a pod has to stop when it is stopped from outside."""
    pod_group: str = ""
    """NAMESPACE/KEY of the group of pods to adopt and bind; empty: pods are created."""


class EvictPods(Wire, frozen=True, kw_only=True):
    """Stop and delete all pods of one attempt; answered by `PodsGone` when none of them runs."""

    workload_id: str
    attempt: int
    epoch: int
    reason: Reason
    """Why the attempt is stopped."""
    grace_seconds: int = 30
    cell: int = 0
    fenced_nodes: tuple[str, ...] = ()
    """Nodes with machines that are off, says an operator: pods there go without their kubelets."""


class ResizePods(Wire, frozen=True, kw_only=True):
    """Have the pods of `placement`, ranks 0..n-1, of an attempt that runs, and no others.

    More: create and bind those that lack; if one cannot be bound, go back to those before. Fewer:
    stop those above with grace. Answered by `PodsResized` or `ResizeRefused` with its `number`.
    """

    workload_id: str
    team: str
    attempt: int
    number: int
    """Counts up within the attempt, from 1."""
    epoch: int
    placement: Placement
    pod_sets: tuple[PodSet, ...]
    grace_seconds: int = 30
    expected_duration_seconds: int | None = None
    cell: int = 0
    namespace: str = ""
    """Where the pods are; empty: the namespace that is named as the team."""
    service_account: str = ""
    """Service account of the pods; empty: the namespace's default, without a token."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of the workload, for its pods."""


class AskedAttempt(Wire, frozen=True, kw_only=True):
    """One attempt, and what placement knows of it."""

    workload_id: str
    attempt: int
    state: State
    """By the last fact that placement has; of what is being stopped only the end is news."""
    resize: int = 0
    """Number of the resize that placement still waits for; 0: for none."""
    resize_pods: int = 0
    """Pods that it asked for by that resize."""


class AskAttempts(Wire, frozen=True, kw_only=True):
    """Tell again what is known of these attempts beyond what placement knows.

    Answered for each by the fact that is missing, and for those of which nothing is missing not
    at all. One that was never heard of has no pods and gets none: `PodsGone`.
    """

    epoch: int
    attempts: tuple[AskedAttempt, ...]
    """Those of which nothing was heard for a while."""
    cell: int = 0


class PodFact(Wire, frozen=True, kw_only=True):
    """What all pod facts share."""

    workload_id: str
    attempt: int
    at_ms: int
    cell: int = 0


class PodSetback(PodFact, frozen=True, kw_only=True):
    """Base of facts about pods that the cluster did not take, or that failed."""

    reason: str = ""
    """What the cluster said of the pod: told by and for versions that know no `pod_reason`."""
    message: str = ""
    pod_reason: str = ""
    node: str = ""
    """Node on which the pod was; empty: unknown."""

    def __post_init__(self) -> None:
        """Whichever was told, both are there; bounded and printable, as it is free text."""
        told = shown(self.pod_reason or self.reason)
        msgspec.structs.force_setattr(self, "reason", told)
        msgspec.structs.force_setattr(self, "pod_reason", told)


class PodsBound(PodFact, frozen=True, kw_only=True):
    """All pods of the attempt are created and bound."""


class PodsRunning(PodFact, frozen=True, kw_only=True):
    """All pods of the attempt run; implies bound."""


class PodsFinished(PodSetback, frozen=True, kw_only=True):
    """All pods of the attempt are terminal and their devices free."""

    succeeded: bool
    """Whether all pods ended well."""
    lost: bool = False
    """A pod was taken from it, or its kubelet refused it: that is no failure of the work."""
    cause: FailureCause = FailureCause.WORK
    """Why it did not succeed."""
    exit_code: int = 0
    """Of the container that failed first; 0: none did, or none is known."""


class PodsGone(PodFact, frozen=True, kw_only=True):
    """No pod of the attempt runs any more: they are gone, or ended; answers an eviction.

    `succeeded` is true when all of them had ended well before they were deleted.
    """

    succeeded: bool = False
    """Whether all pods had ended well before they were deleted."""


class PodsPulling(PodFact, frozen=True, kw_only=True):
    """An image of a pod of the attempt is being pulled: its time to start has not begun."""


class PodsPulled(PodFact, frozen=True, kw_only=True):
    """No image of the attempt is being pulled any more: its time to start begins."""


class PodDevices(Wire, frozen=True, kw_only=True):
    """The GPUs of one pod by UUID, as its kubelet names them."""

    rank: int
    """Number of the pod in the workload, from 0."""
    devices: tuple[str, ...]
    """UUIDs of its GPUs; none: it has ended, and its kubelet may give them to others."""


class PodDevicesTold(PodFact, frozen=True, kw_only=True):
    """Which whole GPUs kubelets chose for pods of the attempt.

    Told again when the binder starts.
    """

    pods: tuple[PodDevices, ...]
    """Pods of which that is told; the others have GPUs that the ledger chose, or none."""


class PodsUnstarted(PodFact, frozen=True, kw_only=True):
    """Pods of these ranks are in the cluster and did not run, so the attempt is being stopped.

    Told when the eviction is accepted, as such pods may hang when they are deleted, too.
    """

    ranks: tuple[int, ...]
    """Numbers of the pods in the workload, from 0."""


class BindRefused(PodSetback, frozen=True, kw_only=True):
    """The cluster refused a pod; every pod of the attempt has been deleted again."""

    reason: str
    message: str
    unstarted: tuple[int, ...] = ()
    """For `BindTimeout`: ranks that were not bound."""
    ends: bool = False
    """The cluster would refuse the same again, whatever is tried: the workload has failed."""


class PodsResized(PodFact, frozen=True, kw_only=True):
    """The attempt has the pods of resize `number`: all are bound, and none above is left."""

    number: int
    """Number of the resize within the attempt."""
    pods: int
    """Pods that it has from now on."""


class ResizeRefused(PodSetback, frozen=True, kw_only=True):
    """The cluster would not take a new pod; none of the new ones is left, the others run on."""

    reason: str
    message: str
    number: int
    """Number of the resize within the attempt."""
