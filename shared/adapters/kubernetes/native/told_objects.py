"""The object that a notice is for: its kind, its path, and the condition that it gets.

A pod has `PodScheduled`, a PodGroup of Kubernetes `PodGroupInitiallyScheduled`. PodGroups of other
schedulers have no condition of ours: their statuses are those of their own controllers (ADR 112).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from shared.adapters.kubernetes.native.group_objects import GROUP_KINDS
from shared.ports.native import GroupNotice, NativeNotice

UNSCHEDULABLE: Final = "Unschedulable"
MESSAGE_MAX: Final = 32_768
"""Characters of the message of a condition of a PodGroup, by the API."""
_POD_GROUPS: Final = {one.source: one for one in GROUP_KINDS if one.source.is_pod_group}


class ToldObject(NamedTuple):
    """What a notice is written on."""

    api_version: str
    kind: str
    path: str
    condition: dict[str, Any] | None
    """None: its status is not ours to write."""


def told_object(notice: NativeNotice, at: datetime) -> ToldObject:
    """The object of a notice that is written at this time."""
    if not isinstance(notice, GroupNotice):
        path = f"/api/v1/namespaces/{notice.namespace}/pods/{notice.name}"
        return ToldObject("v1", "Pod", path, _condition("PodScheduled", notice))
    kind = _POD_GROUPS[notice.source]
    path = f"/apis/{kind.api_version}/namespaces/{notice.namespace}/podgroups/{notice.name}"
    condition = _of_group(kind.condition, notice, at) if kind.condition else None
    return ToldObject(kind.api_version, "PodGroup", path, condition)


def _condition(name: str, notice: NativeNotice) -> dict[str, Any]:
    return {
        "type": name,
        "status": "False",
        "reason": UNSCHEDULABLE if notice.capacity else notice.reason,
        "message": notice.message,
    }


def _of_group(name: str, notice: GroupNotice, at: datetime) -> dict[str, Any]:
    """Its time is that of its last turn, and stays where none is given."""
    turned = {"lastTransitionTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")} if notice.turns else {}
    status = {"status": str(notice.scheduled), "message": notice.message[:MESSAGE_MAX]}
    return {**_condition(name, notice), **status, **turned}
