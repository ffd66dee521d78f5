"""A gang of equal pods with whole GPUs, all or none: the rules of core/gang.py in arrays."""

from __future__ import annotations

from typing import Final

from shared.core.kernels.arrays import (
    CHILDREN,
    CPU,
    FREE,
    GPUS,
    KIND,
    MEMORY,
    NODES_FROM,
    NODES_TO,
    NONE,
    POD_CPU,
    POD_MEMORY,
    POOL,
    WORKS,
    Ints,
    State,
)
from shared.core.kernels.charge import hold, undo
from shared.core.kernels.follow import add_room, bits, free_gpus
from shared.core.kernels.indexes import GROUP, LOG_ROWS, POOLS, Index
from shared.core.kernels.jit import compiled
from shared.core.kernels.single import pick, tightest
from shared.core.kernels.sorting import position, sort

PLACES_BY_DEVICES_MAX: Final = 4
"""As in core/gang.py."""
MANY: Final = 1 << 60
NO_PART: Final = -(1 << 60)

# Columns of `scratch`
PARTS_COUNT: Final = 0
PARTS_BEGIN: Final = 1
"""Where the parts of the domain begin in `State.children`, and how many it has."""
PARTS_WIDTH: Final = 2
PARTS_KEYS: Final = 3
"""First of the keys: room x parts + place among them."""


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
    return True


@compiled
def _on_one_node(state: State, index: Index, slot: int, shape: int, team: int, pods: int) -> bool:
    """Whole GPUs, CPU and memory add up: the gang fits a node if its sum does as one pod."""
    pod = state.shapes[shape]
    cpu_milli, memory_mib = pod[POD_CPU] * pods, pod[POD_MEMORY] * pods
    node = tightest(state, index, shape, pod[GPUS] * pods, cpu_milli, memory_mib)
    return node != NONE and _fill_node(state, index, node, slot, shape, team, pods) == pods


@compiled
def _at_level(
    state: State, index: Index, slot: int, shape: int, team: int, pods: int, level: int
) -> bool:
    """The domain with the least room that holds the gang; by devices, then exactly."""
    row, mark = _row(state, shape), index.sizes[LOG_ROWS]
    domain = _next_tightest(state, index, row, level, pods, NONE)
    if domain == NONE:
        return False
    for _ in range(PLACES_BY_DEVICES_MAX):
        if domain != NONE:
            if _fill(state, index, domain, slot, shape, team, pods, False) == pods:
                return True
            undo(state, index, mark)
            domain = _next_tightest(state, index, row, level, pods, domain)
    domain = _tightest_exactly(state, index, shape, level, pods)
    if domain == NONE:
        return False
    return _fill(state, index, domain, slot, shape, team, pods, True) == pods


@compiled
def _row(state: State, shape: int) -> int:
    """The row of `Index.rooms` that counts pods of `shape`."""
    row: int = state.shapes[shape, POOL] * state.gpus.shape[1] + state.shapes[shape, GPUS] - 1
    return row


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
    rooms = index.rooms[_row(state, shape)]
    found, least = NONE, MANY
    for each in range(state.levels[level], state.levels[level + 1]):
        if rooms[each] >= pods:
            here = _room_exactly(state, shape, each)
            if pods <= here < least:
                found, least = each, here
    return found


@compiled
def _room_exactly(state: State, shape: int, place: int) -> int:
    """Pods that a domain, or node -1 - `place`, can hold."""
    if place < 0:
        return _node_room(state, shape, -1 - place)
    room = 0
    for at in range(state.domains[place, NODES_FROM], state.domains[place, NODES_TO]):
        room += _node_room(state, shape, state.order[at])
    return room


@compiled
def _node_room(state: State, shape: int, node: int) -> int:
    pod, row = state.shapes[shape], state.nodes[node]
    room = _node_room_by_devices(state, shape, node)
    if pod[POD_CPU]:
        room = min(room, row[CPU] // pod[POD_CPU])
    if pod[POD_MEMORY]:
        room = min(room, row[MEMORY] // pod[POD_MEMORY])
    return max(room, 0)


@compiled
def _node_room_by_devices(state: State, shape: int, node: int) -> int:
    if not state.nodes[node, WORKS] or not state.allowed[shape, state.nodes[node, KIND]]:
        return 0
    return int(bits(state.nodes[node, FREE]) // state.shapes[shape, GPUS])


@compiled
def _room_of(state: State, index: Index, shape: int, place: int, exactly: bool) -> int:
    """Pods that a part of the fabric has room for."""
    if exactly:
        return _room_exactly(state, shape, place)
    if place >= 0:
        return int(index.rooms[_row(state, shape), place])
    return _node_room_by_devices(state, shape, -1 - place)


@compiled
def _fill(
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

    The tightest part that holds all that is left is taken, else the largest part and so on. The
    parts of the domains that lead to where it stands are in `scratch`, by depth.
    """
    placed, depth = 0, 0
    _list_parts(state, index, shape, place, exactly, index.scratch[0])
    while placed < pods and depth >= 0:
        part = _take_part(state, index.scratch[depth], pods - placed)
        if part == NO_PART:
            depth -= 1
        elif part < 0:
            left = pods - placed
            placed += _fill_node(state, index, -1 - part, slot + placed, shape, team, left)
        else:
            depth += 1
            _list_parts(state, index, shape, part, exactly, index.scratch[depth])
    return placed


@compiled
def _list_parts(
    state: State, index: Index, shape: int, place: int, exactly: bool, parts: Ints
) -> None:
    """Write the parts of `place` that have any room, in order of room and rank."""
    begin, end = state.domains[place, CHILDREN], state.domains[place + 1, CHILDREN]
    keys, count = parts[PARTS_KEYS:], 0
    for at in range(begin, end):
        room = _room_of(state, index, shape, state.children[at], exactly)
        if room:
            keys[count] = room * (end - begin) + at - begin
            count += 1
    sort(keys, count)
    parts[PARTS_COUNT], parts[PARTS_BEGIN], parts[PARTS_WIDTH] = count, begin, end - begin


@compiled
def _take_part(state: State, parts: Ints, pods: int) -> int:
    """Take out the tightest part with room for `pods`, else the largest; or `NO_PART`."""
    keys, count, width = parts[PARTS_KEYS:], parts[PARTS_COUNT], parts[PARTS_WIDTH]
    if count == 0:
        return NO_PART
    at = min(position(keys, count, pods * width), count - 1)
    part: int = state.children[parts[PARTS_BEGIN] + keys[at] % width]
    parts[PARTS_COUNT] = count - 1
    for each in range(at, count - 1):
        keys[each] = keys[each + 1]
    return part


@compiled
def _fill_node(
    state: State, index: Index, node: int, slot: int, shape: int, team: int, pods: int
) -> int:
    room = min(_node_room(state, shape, node), pods)
    for pod in range(room):
        gpus = pick(state, node, state.shapes[shape, GPUS])
        hold(state, index, slot + pod, node, gpus, shape, team)
    return room


@compiled
def begin_pool(state: State, index: Index, shape: int) -> int:
    """Count the rooms of a new pool: the kinds on which pods of `shape` may run."""
    pool: int = index.sizes[POOLS]
    gpus = state.gpus.shape[1]
    for kind in range(len(state.kinds)):
        index.pool_kinds[pool, kind] = state.allowed[shape, kind]
    index.sizes[POOLS] += 1
    for node in range(len(state.nodes)):
        if index.pool_kinds[pool, state.nodes[node, KIND]]:
            for each in range(1, gpus + 1):
                room = free_gpus(state, node) // each
                if room:
                    add_room(state, index, node, pool * gpus + each - 1, room)
    return pool
