"""Objects that tell the size of a group of pods: the kinds that are read, and how.

A kind that the API server does not serve is no error: it is asked for again now and then. What an
object says and Muster cannot honour is told to the pods of its group alone.
Source: scheduling.k8s.io/v1beta1; the PodGroups of scheduler-plugins, Volcano and KAI;
jobset.x-k8s.io/v1alpha2; leaderworkerset.x-k8s.io/v1; kubeflow.org/v1 and v2beta1; ray.io/v1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes.native.group_sizes import (
    NotHonoured,
    of_jobset,
    of_kubeflow,
    of_kubernetes,
    of_lws,
    of_mpi,
    of_pod_group,
    of_ray,
)
from shared.adapters.kubernetes.native.objects import GroupCustomObject
from shared.core.model.decision import FieldError
from shared.core.model.value import replace
from shared.core.native import BY_UID, GROUP_SIZE_MAX, GroupObject, GroupSource, key_of

ENDS: Final = frozenset(("Completed", "Succeeded", "Failed"))
"""Conditions of what makes no more pods."""
SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""Condition of a PodGroup of Kubernetes; once it is true, it stays so."""

Size = Callable[[dict[str, Any]], "int | Mapping[str, int]"]
"""Pods of a group, or of each of its parts that start one after the other."""


class GroupKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of object: where the API server has it, and how its size is read."""

    path: str
    what: str
    """The plural that errors name it by."""
    source: GroupSource
    """Where its groups are named by its uid, it makes their pods."""
    size: Size
    """From the spec; raises NotHonoured, or msgspec.ValidationError."""

    def read(self, found: GroupCustomObject) -> tuple[str, GroupObject]:
        """The key of its group, and what it says of it."""
        metadata, makes_pods = found.metadata, self.source in BY_UID
        key = key_of(
            metadata.namespace, self.source, metadata.uid if makes_pods else metadata.name
        )
        conditions = _conditions(found.status or {})
        return key, replace(
            self._sized(found),
            over=not makes_pods or any(conditions.get(one) for one in ENDS),
            uid=metadata.uid if self.source.is_pod_group else "",
            scheduled=conditions.get(self.condition),
        )

    @property
    def api_version(self) -> str:
        """GROUP/VERSION."""
        return self.path.removeprefix("/apis/").rpartition("/")[0]

    @property
    def condition(self) -> str:
        """By which the object is told that its pods wait; empty: its status has none for it."""
        return SCHEDULED if self.source is GroupSource.PODGROUP else ""

    def _sized(self, found: GroupCustomObject) -> GroupObject:
        size = self._size(found)
        if isinstance(size, FieldError):
            return GroupObject(refused=size)
        if isinstance(size, int):
            return GroupObject(size=size)
        parts = dict(size)
        return GroupObject(size=sum(parts.values()), in_parts=True, parts=parts)

    def _size(self, found: GroupCustomObject) -> int | Mapping[str, int] | FieldError:
        named = f"{self.what}/{found.metadata.name}"
        try:
            size = self.size(found.spec or {})
        except NotHonoured as error:
            field, value, rule = error.args
            return _error(f"{named}: {field}", value, rule)
        except msgspec.ValidationError as error:
            return _error(f"{named}: spec", "", str(error))
        sizes = (size,) if isinstance(size, int) else size.values()
        if all(1 <= one <= GROUP_SIZE_MAX for one in sizes):
            return size
        return _error(
            f"{named}: spec",
            ", ".join(map(str, sizes)),
            f"must be a group of 1 to {GROUP_SIZE_MAX} pods",
        )


def _conditions(status: dict[str, Any]) -> dict[str, bool]:
    """Which are true, by type."""
    conditions = status.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return {
        str(one["type"]): one.get("status") == "True"
        for one in found
        if isinstance(one, dict) and "type" in one
    }


def _error(field: str, value: str, rule: str) -> FieldError:
    remedy = "change it, or label the pods muster.dev/group and annotate muster.dev/group-size"
    return FieldError(field=field, value=value[:64], rule=rule, remedy=remedy)


def _kind(version: str, plural: str, source: GroupSource, size: Size) -> GroupKind:
    what = f"{plural}.{version.partition('/')[0]}" if plural == "podgroups" else plural
    return GroupKind(path=f"/apis/{version}/{plural}", what=what, source=source, size=size)


GROUP_KINDS: Final = (
    _kind("scheduling.k8s.io/v1beta1", "podgroups", GroupSource.PODGROUP, of_kubernetes),
    _kind("scheduling.x-k8s.io/v1alpha1", "podgroups", GroupSource.COSCHEDULING, of_pod_group),
    _kind("scheduling.volcano.sh/v1beta1", "podgroups", GroupSource.VOLCANO, of_pod_group),
    _kind("scheduling.run.ai/v2alpha2", "podgroups", GroupSource.KAI, of_pod_group),
    _kind("jobset.x-k8s.io/v1alpha2", "jobsets", GroupSource.JOBSET, of_jobset),
    _kind("leaderworkerset.x-k8s.io/v1", "leaderworkersets", GroupSource.LWS, of_lws),
    _kind("kubeflow.org/v1", "jaxjobs", GroupSource.KUBEFLOW, of_kubeflow),
    _kind("kubeflow.org/v1", "paddlejobs", GroupSource.KUBEFLOW, of_kubeflow),
    _kind("kubeflow.org/v1", "pytorchjobs", GroupSource.KUBEFLOW, of_kubeflow),
    _kind("kubeflow.org/v1", "tfjobs", GroupSource.KUBEFLOW, of_kubeflow),
    _kind("kubeflow.org/v1", "xgboostjobs", GroupSource.KUBEFLOW, of_kubeflow),
    _kind("kubeflow.org/v2beta1", "mpijobs", GroupSource.KUBEFLOW, of_mpi),
    _kind("ray.io/v1", "rayclusters", GroupSource.RAY, of_ray),
)
