"""Pods that others made and Muster binds: what they belong to, and the workload that they are.

A pod with `spec.schedulerName: muster` says by its labels or its owner to which group it belongs
(`groups.py`, the first source that applies). A group that is whole is one workload (`spec.py`):
all of its pods are bound or none. What a pod asks for and Muster cannot honour is refused with the
field named (`problems.py`), never ignored. Begin with `groups.py`.

Terms: a group is NAMESPACE/KEY and a size; the index of a pod is its rank in the group; a claimed
pod is one that the binder has adopted for an attempt.
"""

from shared.core.native.by_group import PodsByGroup
from shared.core.native.groups import (
    PodGroup,
    group_key,
    group_of,
    key_of,
    may_come_back,
)
from shared.core.native.pod import ContainerGpus, NativePod
from shared.core.native.problems import problem_of_pod
from shared.core.native.sources import BY_UID, GroupSource
from shared.core.native.spec import READ_ANNOTATIONS, spec_of
from shared.core.native.told import GROUP_SIZE_MAX, GroupObject

__all__ = [
    "BY_UID",
    "GROUP_SIZE_MAX",
    "READ_ANNOTATIONS",
    "ContainerGpus",
    "GroupObject",
    "GroupSource",
    "NativePod",
    "PodGroup",
    "PodsByGroup",
    "group_key",
    "group_of",
    "key_of",
    "may_come_back",
    "problem_of_pod",
    "spec_of",
]
