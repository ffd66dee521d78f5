"""How shelves and rooms follow the nodes that changed, when a gang is to be placed."""

from __future__ import annotations

from shared.core.kernels.arrays import CPU, FREE, KIND, MEMORY, WORKS, State
from shared.core.kernels.bits import bits
from shared.core.kernels.indexes import (
    ROOM_FREE,
    SHELVES_BEHIND,
    SHELVES_QUEUE,
    SHELVES_QUEUED,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.rooms import count_room, free_gpus
from shared.core.kernels.tree import CELL, KEY, NIL, change_room, insert, remove, set_room


@compiled
def follow_shelves(state: State, index: Index) -> None:
    """Bring shelves and rooms in step with all nodes that changed."""
    for at in range(index.sizes[SHELVES_BEHIND]):
        node = index.behind[at, SHELVES_QUEUE]
        row, free = state.nodes[node], free_gpus(state, node)
        index.behind[node, SHELVES_QUEUED] = 0
        works = row[WORKS] and row[CPU] >= 0
        shelf = row[KIND] * (state.gpus.shape[1] + 1) + bits(row[FREE])
        _move(state, index, node, shelf if works else NIL)
        if free != index.behind[node, ROOM_FREE]:
            count_room(state, index, node, index.behind[node, ROOM_FREE], free)
            index.behind[node, ROOM_FREE] = free
    index.sizes[SHELVES_BEHIND] = 0


@compiled
def _move(state: State, index: Index, node: int, shelf: int) -> None:
    """Bring a node onto a shelf (`NIL` for none), there in order of free CPU."""
    row, item, tree = state.nodes[node], len(state.nodes) + node, index.tree
    old, need = tree[item, CELL], (row[CPU], row[MEMORY], 0, 0)
    if old == shelf and old != NIL and tree[item, KEY] == row[CPU]:
        change_room(tree, item, need)
        return
    if old != NIL:
        remove(tree, index.cells, old, item)
    if shelf != NIL:
        tree[item, KEY] = row[CPU]
        set_room(tree, item, need)
        insert(tree, index.cells, shelf, item)
    tree[item, CELL] = shelf
