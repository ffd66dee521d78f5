"""How many pods of a set an empty fleet holds when they come in slices.

Counted as placement counts its room (core/placement/room.py): a place holds whole slices of those
that must lie within it, and hands them up to the domain around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from shared.core.admission.fleet_shape import LEVELS, NodeOutline
from shared.core.admission.static_fit.capacity import usable
from shared.core.model.nouns import Level, PodSet, WorkloadSpec

_Place = tuple[int, tuple[str, ...]]
"""A domain: its depth in `LEVELS`, and its label there and at all wider levels."""
_NODE: Final = -1
_FLEET: Final = len(LEVELS)


def sliced_capacity(
    pod_set: PodSet, spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeOutline, int]
) -> int:
    """Pods in whole slices that `flavor` holds, or one domain of the level that is required.

    O(different nodes).
    """
    rooms = usable(pod_set, spec, flavor, {one.shape: 1 for one in nodes})
    required = spec.topology.required
    widest = _FLEET if required is None else _depth(required)
    held: list[Counter[_Place]] = [Counter() for _ in range(_FLEET + 1)]
    best = 0
    for one, count in nodes.items():
        around = _around(one.domains, 0)
        room = _whole(pod_set, _NODE, around[0], rooms.get(one.shape, 0))
        best = max(best, room)
        held[around[0]][around] += room * count
    for depth in range(min(widest + 1, _FLEET)):
        for (_, labels), raw in held[depth].items():
            around = _around(labels[1:], depth + 1)
            room = _whole(pod_set, depth, around[0], raw)
            best = max(best, room)
            held[around[0]][around] += room
    return held[_FLEET].total() if required is None else best


def _depth(level: Level) -> int:
    return _NODE if level is Level.NODE else LEVELS.index(level)


def _around(labels: tuple[str, ...], depth: int) -> _Place:
    """The tightest domain that has a label; those given are of `depth` and wider."""
    for at, label in enumerate(labels):
        if label:
            return depth + at, labels[at:]
    return _FLEET, ()


def _whole(pod_set: PodSet, depth: int, around: int, room: int) -> int:
    """`room` of a place in whole slices: those that no domain but this one can hold."""
    sizes = (one.pods for one in pod_set.slices if depth <= _depth(one.level) < around)
    unit = max(sizes, default=1)
    return room // unit * unit
