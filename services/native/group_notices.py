"""What the PodGroup of a gang is told: what its pods are told, and that they have their nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shared.core.native import GroupObject, GroupSource, NativePod
from shared.ports.native import GroupNotice, PodNotice

SCHEDULED: Final = "Scheduled"


def notice_of_group(
    key: str, told: GroupObject | None, members: Iterable[NativePod], why: PodNotice | None
) -> GroupNotice | None:
    """What is to be told to it now; None: nothing, or nothing more. O(members).

    Args:
        key: of the group.
        told: what its object says; once all pods had nodes it is told no more.
        members: all of its pods, also those that ended.
        why: what a pod of the gang is told, if one waits.
    """
    if told is None or not told.uid or told.scheduled:
        return None
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
