"""How many pods a part of the fabric has room for: by devices from the index, or exactly."""

from __future__ import annotations

from shared.core.kernels.arrays import (
    CPU,
    FREE,
    GPUS,
    KIND,
    MEMORY,
    NODES_FROM,
    NODES_TO,
    POD_CPU,
    POD_MEMORY,
    POOL,
    WORKS,
    State,
)
from shared.core.kernels.follow import add_room, bits, free_gpus
from shared.core.kernels.indexes import POOLS, Index
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
                    add_room(state, index, node, pool * gpus + each - 1, room)
    return pool
