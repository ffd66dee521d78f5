"""Objects that tell the size of a group of pods: the kinds that are read, and how.

A kind that the API server does not serve is no error: it is asked for again now and then. What an
object says and Muster cannot honour is told to the pods of its group alone.
Source: scheduling.k8s.io/v1beta1; the PodGroups of scheduler-plugins, Volcano and KAI;
jobset.x-k8s.io/v1alpha2; kubeflow.org/v1 and v2beta1; ray.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes.native.group_sizes import (
    NotHonoured,
    of_jobset,
    of_kubeflow,
    of_kubernetes,
    of_mpi,
    of_pod_group,
    of_ray,
)
from shared.adapters.kubernetes.native.objects import GroupCustomObject
from shared.core.model.decision import FieldError
from shared.core.native import GROUP_SIZE_MAX, GroupObject, key_of

ENDS: Final = frozenset(("Completed", "Succeeded", "Failed"))
"""Conditions of what makes no more pods."""


class GroupKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object: where the API server has it, and how its size is read."""

    path: str
    what: str
    """The plural that errors name it by."""
    kind: str
    """The part KIND of the key of its groups."""
    by_uid: bool = False
    """Groups are named by the uid of the object; else by its name."""
    makes_pods: bool = False
    size: Callable[[dict[str, Any]], int]
    """From the spec; raises NotHonoured, or msgspec.ValidationError."""

    def read(self, found: GroupCustomObject) -> tuple[str, GroupObject]:
        """The key of its group, and what it says of it."""
        metadata = found.metadata
        name = metadata.uid if self.by_uid else metadata.name
        return key_of(metadata.namespace, self.kind, name), self._told(found)

    def _told(self, found: GroupCustomObject) -> GroupObject:
        over = not self.makes_pods or _over(found.status or {})
        named = f"{self.what}/{found.metadata.name}"
        try:
            size = self.size(found.spec or {})
        except NotHonoured as error:
            field, value, rule = error.args
            return GroupObject(size=0, refused=_error(f"{named}: {field}", value, rule), over=over)
        except msgspec.ValidationError as error:
            return GroupObject(size=0, refused=_error(f"{named}: spec", "", str(error)), over=over)
        if 1 <= size <= GROUP_SIZE_MAX:
            return GroupObject(size=size, over=over)
        rule = f"must be a group of 1 to {GROUP_SIZE_MAX} pods"
        return GroupObject(size=0, refused=_error(f"{named}: spec", str(size), rule), over=over)


def _over(status: dict[str, Any]) -> bool:
    conditions = status.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return any(
        isinstance(one, dict) and one.get("type") in ENDS and one.get("status") == "True"
        for one in found
    )


def _error(field: str, value: str, rule: str) -> FieldError:
    remedy = "change it, or label the pods muster.dev/group and annotate muster.dev/group-size"
    return FieldError(field=field, value=value[:64], rule=rule, remedy=remedy)


def _pod_groups(group: str, kind: str) -> GroupKind:
    what = f"podgroups.{group.partition('/')[0]}"
    return GroupKind(path=f"/apis/{group}/podgroups", what=what, kind=kind, size=of_pod_group)


GROUP_KINDS: Final = (
    GroupKind(
        path="/apis/scheduling.k8s.io/v1beta1/podgroups",
        what="podgroups.scheduling.k8s.io",
        kind="podgroup",
        size=of_kubernetes,
    ),
    _pod_groups("scheduling.x-k8s.io/v1alpha1", "coscheduling"),
    _pod_groups("scheduling.volcano.sh/v1beta1", "volcano"),
    _pod_groups("scheduling.run.ai/v2alpha2", "kai"),
    *(
        GroupKind(
            path=f"/apis/{version}/{what}",
            what=what,
            kind=kind,
            by_uid=True,
            makes_pods=True,
            size=size,
        )
        for version, what, kind, size in (
            ("jobset.x-k8s.io/v1alpha2", "jobsets", "jobset", of_jobset),
            ("kubeflow.org/v1", "jaxjobs", "kubeflow", of_kubeflow),
            ("kubeflow.org/v1", "paddlejobs", "kubeflow", of_kubeflow),
            ("kubeflow.org/v1", "pytorchjobs", "kubeflow", of_kubeflow),
            ("kubeflow.org/v1", "tfjobs", "kubeflow", of_kubeflow),
            ("kubeflow.org/v1", "xgboostjobs", "kubeflow", of_kubeflow),
            ("kubeflow.org/v2beta1", "mpijobs", "kubeflow", of_mpi),
            ("ray.io/v1", "rayclusters", "ray", of_ray),
        )
    ),
)
