"""A gang of equal pods with whole GPUs, all or none: the rules of core/gang in arrays.

Not here: what `kernels/scope.py` leaves to the core.
"""

from __future__ import annotations

from typing import Final

from shared.core.gang.places import COMPARED_MAX, PLACES_BY_DEVICES_MAX
from shared.core.kernels.arrays import BLOCK, GPUS, NONE, POD_CPU, POD_MEMORY, Ints, State
from shared.core.kernels.charge import hold, undo
from shared.core.kernels.fill import fill, fill_node, parts_for
from shared.core.kernels.indexes import GROUP, LOG_ROWS, Index
from shared.core.kernels.jit import compiled
from shared.core.kernels.rooms import room_exactly, room_row
from shared.core.kernels.shelves import follow_shelves
from shared.core.kernels.single import pick, tightest
from shared.core.kernels.sorting import sort

MANY: Final = 1 << 60
PLACES: Final = 3
"""Row of `scratch` for the places to try: no part lies so deep."""


@compiled
def place_gang(
    state: State,
    index: Index,
    slot: int,
    shape: int,
    team: int,
    pods: int,
    widest: int,
    anywhere: bool,
) -> bool:
    """Place `pods` pods from `slot` on; whether they all found a place.

    In the smallest span up to `widest` (0 for one node, `NONE` if the fabric does not matter);
    `anywhere` says whether a wider span is better than none.
    """
    follow_shelves(state, index)
    if widest == NONE:
        return _each_at_its_best(state, index, slot, shape, team, pods)
    if _on_one_node(state, index, slot, shape, team, pods):
        return True
    for level in range(widest):
        if _at_level(state, index, slot, shape, team, pods, level):
            return True
    return anywhere and _each_at_its_best(state, index, slot, shape, team, pods)


@compiled
def _each_at_its_best(
    state: State, index: Index, slot: int, shape: int, team: int, pods: int
) -> bool:
    pod, mark = state.shapes[shape], index.sizes[LOG_ROWS]
    for each in range(pods):
        node = tightest(state, index, shape, pod[GPUS], pod[POD_CPU], pod[POD_MEMORY])
        if node == NONE:
            undo(state, index, mark)
            return False
        hold(state, index, slot + each, node, pick(state, node, pod[GPUS]), shape, team)
        follow_shelves(state, index)
    return True


@compiled
def _on_one_node(state: State, index: Index, slot: int, shape: int, team: int, pods: int) -> bool:
    """Whole GPUs, CPU and memory add up: the gang fits a node if its sum does as one pod."""
    pod = state.shapes[shape]
    cpu_milli, memory_mib = pod[POD_CPU] * pods, pod[POD_MEMORY] * pods
    node = tightest(state, index, shape, pod[GPUS] * pods, cpu_milli, memory_mib)
    return node != NONE and fill_node(state, index, node, slot, shape, team, pods) == pods


@compiled
def _at_level(
    state: State, index: Index, slot: int, shape: int, team: int, pods: int, level: int
) -> bool:
    """The domain with the least room that holds the gang; by devices, then exactly."""
    if level >= BLOCK:
        return _at_wide_level(state, index, slot, shape, team, pods, level)
    row, mark = room_row(state, shape), index.sizes[LOG_ROWS]
    domain = _next_tightest(state, index, row, level, pods, NONE)
    if domain == NONE:
        return False
    for _ in range(PLACES_BY_DEVICES_MAX):
        if domain != NONE:
            if fill(state, index, domain, slot, shape, team, pods, False) == pods:
                return True
            undo(state, index, mark)
            domain = _next_tightest(state, index, row, level, pods, domain)
    domain = _tightest_exactly(state, index, shape, level, pods)
    if domain == NONE:
        return False
    return fill(state, index, domain, slot, shape, team, pods, True) == pods


@compiled
def _at_wide_level(
    state: State, index: Index, slot: int, shape: int, team: int, pods: int, level: int
) -> bool:
    """The tightest domains, the one whose parts are touched least first."""
    mark, places = index.sizes[LOG_ROWS], index.scratch[PLACES]
    for exactly in (False, True):
        count = _list_places(state, index, shape, pods, level, exactly, places)
        for at in range(count):
            if fill(state, index, places[at], slot, shape, team, pods, exactly) == pods:
                return True
            undo(state, index, mark)
        if count == 0:
            return False
    return False


@compiled
def _list_places(
    state: State, index: Index, shape: int, pods: int, level: int, exactly: bool, places: Ints
) -> int:
    """Write the domains to try at a level; how many."""
    rooms, width = index.rooms[room_row(state, shape)], len(state.domains)
    count = 0
    for each in range(state.levels[level], state.levels[level + 1]):
        room = rooms[each]
        if exactly and room >= pods:
            room = room_exactly(state, shape, each)
        if room >= pods:
            places[count] = room * width + each
            count += 1
    sort(places, count)
    count = min(count, COMPARED_MAX)
    for at in range(count):
        place = places[at] % width
        parts = parts_for(state, index, shape, place, pods, exactly)
        places[at] = (parts * COMPARED_MAX + at) * width + place
    sort(places, count)
    for at in range(count):
        places[at] %= width
    return count


@compiled
def _next_tightest(state: State, index: Index, row: int, level: int, pods: int, after: int) -> int:
    """The domain with the least room for `pods`, of those that come after `after` in that order.

    Groups without room are left out; without `after` nothing is tighter than a perfect fit.
    """
    rooms, begin, end = index.rooms[row], state.levels[level], state.levels[level + 1]
    room = pods - 1 if after == NONE else rooms[after]
    found, least = NONE, MANY
    for group in range(begin // GROUP, (end + GROUP - 1) // GROUP):
        if index.most_room[row, group] < pods:
            continue
        for each in range(max(begin, group * GROUP), min(end, (group + 1) * GROUP)):
            here = rooms[each]
            if pods <= here < least and (here > room or (here == room and each > after)):
                found, least = each, here
        if after == NONE and least == pods:
            break
    return found


@compiled
def _tightest_exactly(state: State, index: Index, shape: int, level: int, pods: int) -> int:
    """The domain with the least room, CPU and memory counted, that has enough.

    Only those are looked at that have enough by devices.
    """
    rooms = index.rooms[room_row(state, shape)]
    found, least = NONE, MANY
    for each in range(state.levels[level], state.levels[level + 1]):
        if rooms[each] >= pods:
            here = room_exactly(state, shape, each)
            if pods <= here < least:
                found, least = each, here
    return found
