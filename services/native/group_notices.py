"""What the PodGroup of a gang is told: what its pods are told, and that they have their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from services.native.judging import BEYOND
from shared.core.native import GroupObject, GroupSource, NativePod
from shared.ports.native import GroupNotice, NativeNotice, PodNotice

SCHEDULED: Final = "Scheduled"


def with_notice_of_group(
    key: str,
    told: GroupObject | None,
    members: Sequence[NativePod],
    notices: Sequence[PodNotice],
) -> Sequence[NativeNotice]:
    """The same, after that of the group if it is told anything now. O(members).

    Args:
        key: of the group.
        told: what its object says; once all pods had nodes it is told no more.
        members: all of its pods, also those that ended.
        notices: what its pods are told; those beyond the size of the group are no news of it.
    """
    if told is None or not told.uid or told.scheduled:
        return notices
    why = next((one for one in notices if one.reason != BEYOND), None)
    own = _notice(key, told, members, why)
    return notices if own is None else (own, *notices)


def _notice(
    key: str, told: GroupObject, members: Sequence[NativePod], why: PodNotice | None
) -> GroupNotice | None:
    scheduled = why is None and told.refused is None and _bound(members) >= told.size
    if why is None and not scheduled:
        return None
    namespace, source, name = key.split("/", 2)
    return GroupNotice(
        namespace=namespace,
        name=name,
        uid=told.uid,
        source=GroupSource(source),
        reason=SCHEDULED if why is None else why.reason,
        message=f"all {told.size} pods have their nodes" if why is None else why.message,
        capacity=why is not None and why.capacity,
        scheduled=scheduled,
        turns=told.scheduled is not scheduled,
    )


def _bound(members: Iterable[NativePod]) -> int:
    return sum(bool(one.node) for one in members)
