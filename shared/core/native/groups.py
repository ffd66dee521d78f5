"""To which group a pod belongs, how large it is, and which rank the pod has in it.

The first source that applies counts:

| source | on the pod | size |
|---|---|---|
| Muster | label `muster.dev/group` | annotation `muster.dev/group-size` |
| Kueue | label `kueue.x-k8s.io/pod-group-name` | annotation `.../pod-group-total-count` |
| LeaderWorkerSet | label `.../group-key`, rank `.../worker-index` | annotation `.../size` |
| Indexed Job | owner, rank `batch.kubernetes.io/job-completion-index` | its parallelism |
| StatefulSet | owner, `apps.kubernetes.io/pod-index` | each index alone |
| all others | | each pod alone |

Membership is always (namespace, key). Groups of which the size is told by an object that Muster
does not read (JobSet, PodGroups, Ray, Kubeflow) are refused by `problems.py`.
Source: Kubernetes Job API; Kueue "plain pods"; LeaderWorkerSet labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.model.decision import FieldError
from shared.core.model.value import Value
from shared.core.native.pod import NativePod

GROUP_SIZE_MAX: Final = 4_096
OWN_GROUP: Final = "muster.dev/group"
OWN_SIZE: Final = "muster.dev/group-size"
KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-key"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
LWS_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
ALONE: Final = "pod"
"""Kind of the group of a pod that nothing will replace under the same key."""
JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
DIGITS_MAX: Final = 5
SIZES: Final = ((OWN_GROUP, OWN_SIZE), (KUEUE_GROUP, KUEUE_SIZE), (LWS_GROUP, LWS_SIZE))
"""(label with the key, annotation with the size)."""
BY_NAME: Final = -1
"""Rank of a pod that has no index: members are ordered by name."""


class IndexedJob(Value, frozen=True, kw_only=True):
    """What an Indexed Job says of its pods."""

    parallelism: int
    completions: int
    over: bool = False
    """It makes no more pods."""

    @property
    def is_gang(self) -> bool:
        """Whether all of its pods run at once, so that they can be a gang."""
        return self.parallelism == self.completions > 1


class PodGroup(Value, frozen=True, kw_only=True):
    """A group as one pod of it tells it."""

    key: str
    """NAMESPACE/KIND/NAME: the same of all members for all time of the group."""
    name: str
    """For people."""
    size: int
    """Pods that run together or not at all."""


def group_key(pod: NativePod) -> tuple[str, int]:
    """The key of the group of a pod, and the pod's rank in it or `BY_NAME`. O(1)."""
    labels = pod.labels
    for label, kind, index in _BY_LABEL:
        if label in labels:
            return f"{pod.namespace}/{kind}/{labels[label]}", _index(labels.get(index, ""))
    if pod.owner_kind == "Job" and JOB_INDEX in labels:
        return key_of_job(pod.namespace, pod.owner_uid), _index(labels[JOB_INDEX])
    if pod.owner_kind == "StatefulSet" and POD_INDEX in labels:
        return f"{pod.namespace}/statefulset/{pod.owner_uid}.{labels[POD_INDEX]}", 0
    return f"{pod.namespace}/{ALONE}/{pod.uid}", 0


def key_of_job(namespace: str, uid: str) -> str:
    """The key of the group of a Job."""
    return f"{namespace}/job/{uid}"


def may_come_back(key: str) -> bool:
    """Whether pods that are made later can belong to the group: not to that of one lone pod."""
    return key.split("/")[1] != ALONE


def group_of(pod: NativePod, jobs: Mapping[str, IndexedJob]) -> PodGroup | FieldError | None:
    """The group of a pod; what is wrong with what it says of it; None: its Job is not known yet.

    `jobs`: Indexed Jobs by uid.
    """
    key, _ = group_key(pod)
    for label, annotation in SIZES:
        if label in pod.labels:
            return _sized(pod, key, pod.labels[label], annotation)
    if pod.owner_kind != "Job" or JOB_INDEX not in pod.labels:
        return PodGroup(key=key, name=pod.name, size=1)
    job = jobs.get(pod.owner_uid)
    if job is None:
        return None
    if job.is_gang:
        return PodGroup(key=key, name=pod.owner_name, size=job.parallelism)
    return FieldError(
        field="spec.parallelism",
        value=str(job.parallelism),
        rule=f"must equal completions ({job.completions}): pods of an Indexed Job are a gang",
        remedy="make them equal, or leave completionMode out so that each pod runs alone",
    )


def _sized(pod: NativePod, key: str, name: str, annotation: str) -> PodGroup | FieldError:
    text = pod.annotations.get(annotation, "")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= GROUP_SIZE_MAX:
        return PodGroup(key=key, name=name, size=int(text))
    return FieldError(
        field=f"metadata.annotations[{annotation}]",
        value=text[:64],
        rule=f"must be the number of pods of the group, 1 to {GROUP_SIZE_MAX}",
        remedy="annotate every pod of the group with the same number",
    )


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else BY_NAME


_BY_LABEL: Final = (
    (OWN_GROUP, "group", JOB_INDEX),
    (KUEUE_GROUP, "kueue", JOB_INDEX),
    (LWS_GROUP, "lws", LWS_INDEX),
)
"""(label with the key, kind of the group, label with the rank)."""
