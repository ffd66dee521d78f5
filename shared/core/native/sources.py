"""Where a pod says to which group it belongs, and its rank there (the table of `groups.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Final

from shared.core.native.pod import NativePod
from shared.core.native.told import GROUP_SIZE_MAX

OWN_GROUP: Final = "muster.dev/group"
OWN_SIZE: Final = "muster.dev/group-size"
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-key"
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
LWS_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
DIGITS_MAX: Final = 5


class GroupSource(StrEnum):
    """What makes pods a group: the part KIND of its key."""

    OWN = "group"
    PODGROUP = "podgroup"
    COSCHEDULING = "coscheduling"
    VOLCANO = "volcano"
    KUEUE = "kueue"
    KAI = "kai"
    JOBSET = "jobset"
    LWS = "lws"
    JOB = "job"
    KUBEFLOW = "kubeflow"
    RAY = "ray"
    STATEFULSET = "statefulset"
    ALONE = "pod"
    """A pod that nothing will replace under the same key."""

    @property
    def is_pod_group(self) -> bool:
        """Whether an object called PodGroup tells of it, which its owner made for that."""
        return self in _POD_GROUPS


SIZES: Final = {
    GroupSource.OWN: OWN_SIZE,
    GroupSource.KUEUE: KUEUE_SIZE,
    GroupSource.LWS: LWS_SIZE,
}
"""By kind of group: the annotation with the size."""
EACH_ALONE: Final = frozenset((GroupSource.ALONE, GroupSource.STATEFULSET))
"""Kinds of groups of one pod."""
BY_UID: Final = frozenset(
    (GroupSource.JOBSET, GroupSource.JOB, GroupSource.KUBEFLOW, GroupSource.RAY)
)
"""Kinds of groups that are named by the uid of their object, which makes their pods."""
_POD_GROUPS: Final = frozenset(
    (GroupSource.PODGROUP, GroupSource.COSCHEDULING, GroupSource.VOLCANO, GroupSource.KAI)
)
VOLCANO_GROUPS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KAI_GROUP: Final = "pod-group-name"
BY_NAME: Final = -1
"""Rank of a pod that has no index: members are ordered by name."""
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB: Final = "jobset.sigs.k8s.io/job-global-index"
KUBEFLOW_INDEX: Final = "training.kubeflow.org/replica-index"
KUBEFLOW_ROLE: Final = "training.kubeflow.org/replica-type"
KUBEFLOW_KINDS: Final = frozenset(
    ("JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
)
FIRST_ROLES: Final = ("master", "chief")
"""Of Kubeflow, in lower case: the pods of these roles have the first ranks."""
RAY_CLUSTER: Final = "ray.io/cluster"
LEADER: Final = "leader"
WORKERS: Final = "workers"
"""Parts of a group of a LeaderWorkerSet."""


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else BY_NAME


def _label(key: str) -> Callable[[NativePod], str]:
    return lambda pod: pod.labels.get(key, "")


def _annotation(*keys: str) -> Callable[[NativePod], str]:
    return lambda pod: next((pod.annotations[one] for one in keys if one in pod.annotations), "")


def _rank(label: str) -> Callable[[NativePod], int]:
    return lambda pod: _index(pod.labels.get(label, ""))


def _jobset_rank(pod: NativePod) -> int:
    job, index = _rank(JOBSET_JOB)(pod), _rank(JOB_INDEX)(pod)
    return BY_NAME if BY_NAME in (job, index) else job * GROUP_SIZE_MAX + index


def _kubeflow_rank(pod: NativePod) -> int:
    index = _rank(KUBEFLOW_INDEX)(pod)
    first = pod.labels.get(KUBEFLOW_ROLE, "").lower() in FIRST_ROLES
    return index if first or index == BY_NAME else index + GROUP_SIZE_MAX


def _ray_rank(pod: NativePod) -> int:
    return 0 if pod.labels.get("ray.io/node-type") == "head" else 1  # then by name, so by group


def _owned_by(label: str, kinds: Collection[str]) -> Callable[[NativePod], str]:
    return lambda pod: pod.owner_uid if pod.owner_kind in kinds and label in pod.labels else ""


def _stateful(pod: NativePod) -> str:
    index = pod.labels.get(POD_INDEX)
    return f"{pod.owner_uid}.{index}" if pod.owner_kind == "StatefulSet" and index else ""


SOURCES: Final = (
    (GroupSource.OWN, _label(OWN_GROUP), _rank(JOB_INDEX)),
    (GroupSource.PODGROUP, lambda pod: pod.scheduling_group, _rank(JOB_INDEX)),
    (GroupSource.COSCHEDULING, _label("scheduling.x-k8s.io/pod-group"), _rank(JOB_INDEX)),
    (GroupSource.VOLCANO, _annotation(*VOLCANO_GROUPS), _rank("volcano.sh/task-index")),
    (GroupSource.KUEUE, _label(KUEUE_GROUP), _rank(JOB_INDEX)),
    (GroupSource.KAI, _annotation(KAI_GROUP), _rank(JOB_INDEX)),
    (GroupSource.JOBSET, _label(JOBSET_UID), _jobset_rank),
    (GroupSource.LWS, _label(LWS_GROUP), _rank(LWS_INDEX)),
    (GroupSource.JOB, _owned_by(JOB_INDEX, ("Job",)), _rank(JOB_INDEX)),
    (GroupSource.KUBEFLOW, _owned_by(KUBEFLOW_INDEX, KUBEFLOW_KINDS), _kubeflow_rank),
    (GroupSource.RAY, _owned_by(RAY_CLUSTER, ("RayCluster",)), _ray_rank),
    (GroupSource.STATEFULSET, _stateful, lambda pod: 0),  # noqa: ARG005  # each index is alone
)
"""(kind of the group, its name on the pod or nothing, the pod's rank), in order of precedence."""


def _lws_part(pod: NativePod) -> str:
    return LEADER if _rank(LWS_INDEX)(pod) == 0 else WORKERS


PARTS: Final[Mapping[GroupSource, Callable[[NativePod], str]]] = {
    GroupSource.JOBSET: _label(JOBSET_PART),
    GroupSource.LWS: _lws_part,
}
"""Kinds of groups that may start part by part: the part of a pod, or nothing."""
