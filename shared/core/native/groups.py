"""To which group a pod belongs, how large it is, and which rank the pod has in it.

The first source that applies counts:

| source | on the pod | size |
|---|---|---|
| Muster | label `muster.dev/group` | annotation `muster.dev/group-size` |
| Kubernetes | `spec.schedulingGroup.podGroupName` | PodGroup, `gang.minCount` |
| coscheduling | label `scheduling.x-k8s.io/pod-group` | PodGroup, `minMember` |
| Volcano | annotation `scheduling.k8s.io/group-name` | PodGroup, `minMember` |
| Kueue | label `kueue.x-k8s.io/pod-group-name` | annotation `.../pod-group-total-count` |
| KAI | annotation `pod-group-name` | PodGroup, `minMember` |
| JobSet | label `jobset.sigs.k8s.io/jobset-uid` | JobSet, the pods of all its Jobs, or each |
| LeaderWorkerSet | label `.../group-key`, rank `.../worker-index` | annotation `.../size` |
| Indexed Job | owner, rank `batch.kubernetes.io/job-completion-index` | its parallelism |
| Kubeflow | owner, rank `training.kubeflow.org/replica-index` | the replicas of all roles |
| Ray | owner RayCluster, the head first | head and workers of all groups |
| StatefulSet | owner, `apps.kubernetes.io/pod-index` | each index alone |
| all others | | each pod alone |

Membership is always (namespace, key). Where an object tells that its pods start part by part (a
JobSet in order, a LeaderWorkerSet with LeaderReady), each part is a group of its own: those of
later parts are made only when the former run, so a whole would wait for ever (ADR 111).

Groups of which the size is told by an object that Muster
does not read (YuniKorn) are refused by `problems.py`.
Source: Kubernetes Job and PodGroup APIs; the PodGroups of scheduler-plugins, Volcano and KAI;
Kueue "plain pods"; labels of JobSet, LeaderWorkerSet,
the Training Operator and KubeRay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.model.decision import FieldError
from shared.core.model.value import Value
from shared.core.native.pod import NativePod
from shared.core.native.sources import (
    BY_UID,
    EACH_ALONE,
    JOBSET_NAME,
    LEADER,
    LWS_NAME,
    PARTS,
    SIZES,
    SOURCES,
    GroupSource,
)
from shared.core.native.told import GROUP_SIZE_MAX, GroupObject

PART: Final = ":"
"""Between the key of a whole and a part of it: no label and no uid has it."""


class PodGroup(Value, frozen=True, kw_only=True):
    """A group as one pod of it tells it."""

    key: str
    """NAMESPACE/KIND/NAME: the same of all members for all time of the group."""
    name: str
    """For people."""
    size: int
    """Pods that run together or not at all."""


def group_key(pod: NativePod) -> tuple[str, int]:
    """The key of the group of a pod, and the pod's rank in it or `BY_NAME`. O(1).

    Ranks order the members; those of a JobSet are not without gaps.
    """
    for kind, name, rank in SOURCES:
        found = name(pod)
        if found:
            return key_of(pod.namespace, kind, found), rank(pod)
    return key_of(pod.namespace, GroupSource.ALONE, pod.uid), 0


def keys_of(pod: NativePod) -> tuple[str, ...]:
    """Of the groups that a pod may be of, as objects tell: its whole, then parts of it. O(1)."""
    whole, _ = group_key(pod)
    kind = GroupSource(whole.split("/")[1])
    if kind not in PARTS:
        return (whole,)
    part, told_by = PARTS[kind](pod), object_key(pod)
    parts = (f"{whole}{PART}{part}",) if part else ()
    return (whole, *parts) if told_by == whole else (whole, *parts, told_by)


def object_key(pod: NativePod) -> str:
    """The key under which the object of the group of a pod is told. O(1)."""
    key, _ = group_key(pod)
    lws = key.split("/")[1] == GroupSource.LWS
    return key_of(pod.namespace, GroupSource.LWS, pod.labels.get(LWS_NAME, "")) if lws else key


def whole_of(key: str) -> str:
    """The key of the whole that a group is or is a part of. O(1)."""
    return key.partition(PART)[0]


def key_of(namespace: str, kind: GroupSource, name: str) -> str:
    """The key of a group: NAMESPACE/KIND/NAME."""
    return f"{namespace}/{kind}/{name}"


def may_come_back(key: str) -> bool:
    """Whether pods that are made later can belong to the group: not to that of one lone pod."""
    return key.split("/")[1] != GroupSource.ALONE


def group_of(pod: NativePod, told: Mapping[str, GroupObject]) -> PodGroup | FieldError | None:
    """The group of a pod; what is wrong with what is said of it; None: its object is not known.

    `told`: what objects say of groups, by key.
    """
    key, _ = group_key(pod)
    _, text, name = key.split("/", 2)
    kind = GroupSource(text)
    found = told.get(object_key(pod))
    if kind in SIZES and (found is not None or LWS_NAME not in pod.labels):
        group = _sized(pod, key, name, SIZES[kind])
    elif kind in EACH_ALONE:
        group = PodGroup(key=key, name=pod.name, size=1)
    elif found is None:
        return None
    else:
        shown = _shown(pod, kind, name)
        group = found.refused or PodGroup(key=key, name=shown, size=found.size)
    return _part(pod, group, found) if found is not None and found.in_parts else group


def _part(
    pod: NativePod, whole: PodGroup | FieldError, found: GroupObject
) -> PodGroup | FieldError:
    """The part of a pod of what starts in parts."""
    if isinstance(whole, FieldError):
        return whole
    part = PARTS[GroupSource(whole.key.split("/")[1])](pod)
    size = found.parts.get(part) or (1 if part == LEADER else whole.size - 1)
    return PodGroup(key=f"{whole.key}{PART}{part}", name=f"{whole.name}-{part}", size=size)


def _shown(pod: NativePod, kind: GroupSource, name: str) -> str:
    if kind is GroupSource.JOBSET:
        return pod.labels.get(JOBSET_NAME, name)
    return pod.owner_name if kind in BY_UID else name


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
