"""Puts pods of one shape into as few parts of the fabric as can be: core/gang/fill.py in arrays.

The tightest part that holds all that is left is taken, else the largest part and so on.
"""

from __future__ import annotations

from typing import Final

from shared.core.kernels.arrays import (
    BLOCK,
    CHILDREN,
    GPUS,
    NODE_POSITION,
    POSITION,
    ZONE,
    Ints,
    State,
)
from shared.core.kernels.charge import hold
from shared.core.kernels.indexes import Index
from shared.core.kernels.jit import compiled
from shared.core.kernels.rooms import node_room, room_of
from shared.core.kernels.single import pick
from shared.core.kernels.sorting import position, sort

NO_PART: Final = -(1 << 60)

# Columns of `scratch`
PARTS_COUNT: Final = 0
PARTS_KEYS: Final = 1
"""First of the keys: room x number of places + position in `State.places`."""


@compiled
def fill(
    state: State,
    index: Index,
    place: int,
    slot: int,
    shape: int,
    team: int,
    pods: int,
    exactly: bool,
) -> int:
    """Hold up to `pods` pods in a domain; how many found room.

    The parts of the domains that lead to where it stands are in `scratch`, by depth.
    """
    placed, depth = 0, 0
    if place >= state.levels[ZONE]:
        _list_across(state, index, shape, place, pods, exactly)
    else:
        _list_parts(state, index, shape, place, exactly, index.scratch[0])
    while placed < pods and depth >= 0:
        part = _take_part(state, index.scratch[depth], pods - placed)
        if part == NO_PART:
            depth -= 1
        elif part < 0:
            left = pods - placed
            placed += fill_node(state, index, -1 - part, slot + placed, shape, team, left)
        else:
            depth += 1
            _list_parts(state, index, shape, part, exactly, index.scratch[depth])
    return placed


@compiled
def fill_node(
    state: State, index: Index, node: int, slot: int, shape: int, team: int, pods: int
) -> int:
    """Hold up to `pods` pods on a node; how many found room."""
    room = min(node_room(state, shape, node), pods)
    for pod in range(room):
        gpus = pick(state, node, state.shapes[shape, GPUS])
        hold(state, index, slot + pod, node, gpus, shape, team)
    return room


@compiled
def parts_for(state: State, index: Index, shape: int, place: int, pods: int, exactly: bool) -> int:
    """How many parts of a domain it takes to hold `pods`, the largest first."""
    parts, taken = index.scratch[0], 0
    _list_parts(state, index, shape, place, exactly, parts)
    while pods > 0 and taken < parts[PARTS_COUNT]:
        taken += 1
        pods -= parts[PARTS_KEYS + parts[PARTS_COUNT] - taken] // len(state.places)
    return taken


@compiled
def _list_across(
    state: State, index: Index, shape: int, zone: int, pods: int, exactly: bool
) -> None:
    """Write the racks of the fewest blocks that hold `pods`, and what is in no block."""
    racks, blocks = index.scratch[0], index.scratch[1]
    _list_parts(state, index, shape, zone, exactly, blocks)
    racks[PARTS_COUNT] = 0
    while pods > 0 and blocks[PARTS_COUNT]:
        part = _take_part(state, blocks, pods)
        pods -= room_of(state, index, shape, part, exactly)
        if state.levels[BLOCK] <= part < state.levels[ZONE]:
            begin, end = state.domains[part, CHILDREN], state.domains[part + 1, CHILDREN]
            _add_parts(state, index, shape, state.children[begin:end], exactly, racks)
        else:
            at = _position(state, part)
            _add_parts(state, index, shape, state.places[at : at + 1], exactly, racks)
    sort(racks[PARTS_KEYS:], racks[PARTS_COUNT])


@compiled
def _list_parts(
    state: State, index: Index, shape: int, place: int, exactly: bool, parts: Ints
) -> None:
    """Write the parts of `place` that have any room, in order of room and rank."""
    begin, end = state.domains[place, CHILDREN], state.domains[place + 1, CHILDREN]
    parts[PARTS_COUNT] = 0
    _add_parts(state, index, shape, state.children[begin:end], exactly, parts)
    sort(parts[PARTS_KEYS:], parts[PARTS_COUNT])


@compiled
def _add_parts(
    state: State, index: Index, shape: int, places: Ints, exactly: bool, parts: Ints
) -> None:
    """Write those of `places` that have any room."""
    keys, count, width = parts[PARTS_KEYS:], parts[PARTS_COUNT], len(state.places)
    for at in range(len(places)):
        room = room_of(state, index, shape, places[at], exactly)
        if room:
            keys[count] = room * width + _position(state, places[at])
            count += 1
    parts[PARTS_COUNT] = count


@compiled
def _position(state: State, place: int) -> int:
    """Where a place is in `State.places`."""
    if place < 0:
        return int(state.nodes[-1 - place, NODE_POSITION])
    return int(state.domains[place, POSITION])


@compiled
def _take_part(state: State, parts: Ints, pods: int) -> int:
    """Take out the tightest part with room for `pods`, else the largest; or `NO_PART`."""
    keys, count, width = parts[PARTS_KEYS:], parts[PARTS_COUNT], len(state.places)
    if count == 0:
        return NO_PART
    at = min(position(keys, count, pods * width), count - 1)
    part: int = state.places[keys[at] % width]
    parts[PARTS_COUNT] = count - 1
    for each in range(at, count - 1):
        keys[each] = keys[each + 1]
    return part
