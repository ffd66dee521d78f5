"""How the indexes follow one node, in O(log n)."""

from __future__ import annotations

from shared.core.kernels.arrays import (
    CPU,
    FREE,
    GPU_MEMORY,
    KIND,
    LEVELS,
    MEMORY,
    MILLI,
    NONE,
    OWNER,
    PATH,
    USABLE,
    WORKS,
    Ints32,
    State,
)
from shared.core.kernels.cells import cell_of, line_of, move
from shared.core.kernels.filling import fill_key
from shared.core.kernels.indexes import (
    BITS,
    FREE_STEPS,
    GPU_WORDS,
    GROUP,
    NODE_WORDS,
    NODES_OWNER,
    POOLS,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.tree import CELL, KEY, NIL, ROOT, change_room, insert, remove, set_room
from shared.core.market import CPU_STEP_MILLI, REST_MILLI, SHARED_CPU_STEP_MILLI
from shared.core.units import GPU_MILLI
from shared.core.waste import MILLI_STEP, PART_MILLI


@compiled
def follow(state: State, index: Index, node: int) -> None:
    """Bring cells and shelves in step with `node`; rooms follow in `count_room`."""
    row, gpus = state.nodes[node], state.gpus.shape[1]
    works = row[WORKS] and row[CPU] >= 0
    free, parts_milli = bits(row[FREE]), _parts_milli(state, node)
    key = fill_key(state, index, node)
    _follow_shelf(state, index, node, row[KIND] * (gpus + 1) + free if works else NIL)
    cell = NIL
    if works:
        step = row[CPU] // CPU_STEP_MILLI
        line = _node_line(index, gpus, row[KIND], free, parts_milli // PART_MILLI, step // BITS)
        cell = cell_of(index, NODES_OWNER, line, step % BITS)
    move(index, node, cell, (row[CPU], row[MEMORY], 0, 0), key)
    for gpu in range(gpus):
        item = 2 * len(state.nodes) + node * gpus + gpu
        if state.gpus[node, gpu, OWNER] != NONE or index.tree[item, CELL] != NIL:
            _follow_gpu(state, index, node, gpu, item, free * GPU_MILLI + parts_milli, key)


@compiled
def _follow_gpu(
    state: State, index: Index, node: int, gpu: int, item: int, all_milli: int, key: int
) -> None:
    """Bring one GPU in step; `all_milli` is free on its node in all."""
    row, use = state.nodes[node], state.gpus[node, gpu]
    free_milli, cell = GPU_MILLI - use[MILLI], NIL
    if use[OWNER] != NONE and free_milli > 0 and row[USABLE] >> gpu & 1 and row[CPU] >= 0:
        rest, free = (all_milli - free_milli) // REST_MILLI, free_milli // MILLI_STEP
        step = row[CPU] // SHARED_CPU_STEP_MILLI
        line = _gpu_line(state, index, row[KIND], free, rest, step // BITS)
        cell = cell_of(index, use[OWNER] + 1, line, step % BITS)
    move(index, item, cell, (row[CPU], row[MEMORY], use[GPU_MEMORY], free_milli), key)


@compiled
def _node_line(index: Index, gpus: int, kind: int, free: int, parts: int, word: int) -> int:
    """The line of nodes with `free` of `gpus` GPUs and `parts` half GPUs."""
    row = (kind * (gpus + 1) + free) * (2 * gpus + 1) + parts
    return line_of(index, row * index.sizes[NODE_WORDS] + word, 0, kind, free, parts, word)


@compiled
def _gpu_line(state: State, index: Index, kind: int, free: int, rest: int, word: int) -> int:
    """The line of shared GPUs with `free` hundredths, beside `rest` pairs of GPUs."""
    gpus = state.gpus.shape[1]
    first = len(state.kinds) * (gpus + 1) * (2 * gpus + 1) * index.sizes[NODE_WORDS]
    row = (kind * FREE_STEPS + free) * (gpus // 2 + 1) + rest
    return line_of(index, first + row * index.sizes[GPU_WORDS] + word, 1, kind, free, rest, word)


@compiled
def _follow_shelf(state: State, index: Index, node: int, shelf: int) -> None:
    """Shelves are in order of free CPU."""
    row, item, tree = state.nodes[node], len(state.nodes) + node, index.tree
    old, need = tree[item, CELL], (row[CPU], row[MEMORY], 0, 0)
    if old == shelf and old != NIL and tree[item, KEY] == row[CPU]:
        change_room(tree, index.cells[shelf, ROOT], item, need, index.path)
        return
    if old != NIL:
        remove(tree, index.cells, old, item, index.path)
    if shelf != NIL:
        tree[item, KEY] = row[CPU]
        set_room(tree, item, need)
        insert(tree, index.cells, shelf, item, index.path)
    tree[item, CELL] = shelf


@compiled
def count_room(state: State, index: Index, node: int, before: int) -> None:
    """`node` had so many GPUs free `before`, as far as rooms know: count what it has now."""
    after, gpus = free_gpus(state, node), state.gpus.shape[1]
    if before == after:
        return
    for each in range(1, gpus + 1):
        change = after // each - before // each
        if change:
            for pool in range(index.sizes[POOLS]):
                if index.pool_kinds[pool, state.nodes[node, KIND]]:
                    add_room(state, index, node, pool * gpus + each - 1, change)


@compiled
def add_room(state: State, index: Index, node: int, row: int, change: int) -> None:
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


@compiled
def bits(mask: int) -> int:
    """How many bits of `mask` are set."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@compiled
def _parts_milli(state: State, node: int) -> int:
    """Free part of the GPUs that are shared."""
    total = 0
    for gpu in range(state.gpus.shape[1]):
        if state.gpus[node, gpu, OWNER] != NONE and state.nodes[node, USABLE] >> gpu & 1:
            total += GPU_MILLI - state.gpus[node, gpu, MILLI]
    return total
