"""How many pods a part of the fabric has room for: by devices from the index, or exactly."""

from __future__ import annotations

from shared.core.kernels.arrays import (
    CPU,
    FREE,
    GPUS,
    KIND,
    LEVELS,
    MEMORY,
    NODES_FROM,
    NODES_TO,
    NONE,
    PATH,
    POD_CPU,
    POD_MEMORY,
    POOL,
    WORKS,
    Ints32,
    State,
)
from shared.core.kernels.bits import bits
from shared.core.kernels.indexes import GROUP, POOLS, Index
from shared.core.kernels.jit import compiled


@compiled
def room_row(state: State, shape: int) -> int:
    """The row of `Index.rooms` that counts pods of `shape`."""
    row: int = state.shapes[shape, POOL] * state.gpus.shape[1] + state.shapes[shape, GPUS] - 1
    return row


@compiled
def room_exactly(state: State, shape: int, place: int) -> int:
    """Pods that a domain, or node -1 - `place`, can hold."""
    if place < 0:
        return node_room(state, shape, -1 - place)
    room = 0
    for at in range(state.domains[place, NODES_FROM], state.domains[place, NODES_TO]):
        room += node_room(state, shape, state.order[at])
    return room


@compiled
def node_room(state: State, shape: int, node: int) -> int:
    """Pods that a node can hold, CPU and memory counted."""
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
def room_of(state: State, index: Index, shape: int, place: int, exactly: bool) -> int:
    """Pods that a part of the fabric has room for."""
    if exactly:
        return room_exactly(state, shape, place)
    if place >= 0:
        return int(index.rooms[room_row(state, shape), place])
    return _node_room_by_devices(state, shape, -1 - place)


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
                    _add_room(state, index, node, pool * gpus + each - 1, room)
    return pool


@compiled
def count_room(state: State, index: Index, node: int, before: int, after: int) -> None:
    """Of `node` so many free GPUs were counted `before`; count those that it has `after`."""
    gpus = state.gpus.shape[1]
    for each in range(1, gpus + 1):
        change = after // each - before // each
        if change:
            for pool in range(index.sizes[POOLS]):
                if index.pool_kinds[pool, state.nodes[node, KIND]]:
                    _add_room(state, index, node, pool * gpus + each - 1, change)


@compiled
def _add_room(state: State, index: Index, node: int, row: int, change: int) -> None:
    """Add to the rooms of all domains that hold `node`."""
    rooms, most = index.rooms[row], index.most_room[row]
    for level in range(LEVELS):
        domain = state.nodes[node, PATH + level]
        if domain != NONE:
            before, group = rooms[domain], domain // GROUP
            rooms[domain] += change
            if change > 0:
                most[group] = max(most[group], rooms[domain])
            elif before == most[group]:
                most[group] = _most(rooms, group * GROUP)


@compiled
def _most(rooms: Ints32, begin: int) -> int:
    """The most room in the group of domains that begins there."""
    most = 0
    for domain in range(begin, min(begin + GROUP, len(rooms))):
        most = max(most, rooms[domain])
    return most


@compiled
def free_gpus(state: State, node: int) -> int:
    """Whole GPUs that may be given away; 0 where no work is taken."""
    return bits(state.nodes[node, FREE]) if state.nodes[node, WORKS] else 0
