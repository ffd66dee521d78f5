"""Members that change their cell or their order in it: planned first, then moved together.

Where a member hangs and where it will hang are chains of reads, each of which waits for the one
before; in a large fleet nearly every one is a cache miss. The chains of several members do not
depend on each other. So the plan is walked once level by level, all members side by side, and the
processor waits for their memory at the same time; the moves after it find it in the cache.
Walking changes nothing: what is moved, and in which order, is the plan.
"""

from __future__ import annotations

from shared.core.kernels.cells import move
from shared.core.kernels.indexes import (
    MOVE_CELL,
    MOVE_ITEM,
    MOVE_KEY,
    MOVE_NEED,
    MOVE_NODE,
    MOVES_PLANNED,
    READ,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.tree import (
    CELL,
    KEY,
    LEFT,
    NIL,
    PARENT,
    PRIORITY,
    RIGHT,
    ROOT,
    Need,
    precedes,
)


@compiled
def plan_move(index: Index, item: int, cell: int, need: Need, key: int) -> None:
    """Note that `item` is to be brought into `cell` (kernels/cells.py, `move`)."""
    row = index.moves[index.sizes[MOVES_PLANNED]]
    row[MOVE_ITEM], row[MOVE_CELL], row[MOVE_KEY] = item, cell, key
    for each in range(len(need)):
        row[MOVE_NEED + each] = need[each]
    index.sizes[MOVES_PLANNED] += 1


@compiled
def carry_out(index: Index) -> None:
    """Do what was planned."""
    count = index.sizes[MOVES_PLANNED]
    if _begin_walks(index, count):
        while _walk_on(index, count):
            pass
    for at in range(count):
        row = index.moves[at]
        at_need = MOVE_NEED
        need = (row[at_need], row[at_need + 1], row[at_need + 2], row[at_need + 3])
        move(index, row[MOVE_ITEM], row[MOVE_CELL], need, row[MOVE_KEY])
    index.sizes[MOVES_PLANNED] = 0


@compiled
def _begin_walks(index: Index, count: int) -> bool:
    """Read what each item hangs on and the root of its new tree; whether there is any of these."""
    tree, read, any_root = index.tree, 0, False
    for at in range(count):
        row = index.moves[at]
        item, cell = row[MOVE_ITEM], row[MOVE_CELL]
        for side in (LEFT, RIGHT, PARENT):
            if tree[item, side] != NIL:
                read ^= tree[tree[item, side], PRIORITY]
        stays = tree[item, CELL] == cell and tree[item, KEY] == row[MOVE_KEY]
        row[MOVE_NODE] = NIL if stays or cell == NIL else index.cells[cell, ROOT]
        if row[MOVE_NODE] != NIL:
            read ^= tree[row[MOVE_NODE], PRIORITY]
            any_root = True
    index.sizes[READ] = read
    return any_root


@compiled
def _walk_on(index: Index, count: int) -> bool:
    """Each one level down to where it will be inserted; whether any is still on its way."""
    tree, read, going = index.tree, 0, False
    for at in range(count):
        row = index.moves[at]
        node, item = row[MOVE_NODE], row[MOVE_ITEM]
        if node == NIL:
            continue
        below = NIL
        if tree[node, PRIORITY] > tree[item, PRIORITY]:
            before = precedes(row[MOVE_KEY], item, tree[node, KEY], node)
            below = tree[node, LEFT if before else RIGHT]
        row[MOVE_NODE] = below
        if below != NIL:
            read ^= tree[below, PRIORITY]
            going = True
    index.sizes[READ] = read
    return going
