"""How the cells follow the nodes that changed, when a single pod is to be placed.

Gangs do not look at cells, and a node that changed several times moves once: so changes are noted
(`note_change`) and nodes move in O(log n) each when somebody looks (kernels/shelves.py for gangs).
"""

from __future__ import annotations

from shared.core.kernels.arrays import (
    CPU,
    FREE,
    GPU_MEMORY,
    KIND,
    MEMORY,
    MILLI,
    NONE,
    OWNER,
    USABLE,
    WORKS,
    State,
)
from shared.core.kernels.bits import bits, lowest
from shared.core.kernels.cells import cell_of, line_of
from shared.core.kernels.filling import fill_key, keep_order
from shared.core.kernels.indexes import (
    BITS,
    CELLS_BEHIND,
    CELLS_QUEUE,
    CELLS_QUEUED,
    FREE_STEPS,
    GPU_WORDS,
    GPUS_IN_CELLS,
    MOVES_PLANNED,
    MOVES_ROOM,
    NODE_WORDS,
    NODES_OWNER,
    SHELVES_BEHIND,
    SHELVES_QUEUE,
    SHELVES_QUEUED,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.moves import carry_out, plan_move
from shared.core.kernels.tree import NIL
from shared.core.market_scores import CPU_STEP_MILLI, REST_MILLI, SHARED_CPU_STEP_MILLI
from shared.core.share_values import MILLI_STEP
from shared.core.units import GPU_MILLI
from shared.core.waste import PART_MILLI


@compiled
def note_change(index: Index, node: int) -> None:
    """`node` changed: cells and shelves are behind."""
    row = index.behind[node]
    if not row[CELLS_QUEUED]:
        row[CELLS_QUEUED] = 1
        index.behind[index.sizes[CELLS_BEHIND], CELLS_QUEUE] = node
        index.sizes[CELLS_BEHIND] += 1
    if not row[SHELVES_QUEUED]:
        row[SHELVES_QUEUED] = 1
        index.behind[index.sizes[SHELVES_BEHIND], SHELVES_QUEUE] = node
        index.sizes[SHELVES_BEHIND] += 1


@compiled
def follow_cells(state: State, index: Index) -> None:
    """Bring the cells in step with all nodes that changed, and those in order."""
    for at in range(index.sizes[CELLS_BEHIND]):
        node = index.behind[at, CELLS_QUEUE]
        index.behind[node, CELLS_QUEUED] = 0
        _follow_node(state, index, node)
        if index.sizes[MOVES_PLANNED] >= MOVES_ROOM:
            carry_out(index)
    carry_out(index)
    index.sizes[CELLS_BEHIND] = 0
    keep_order(state, index)


@compiled
def _follow_node(state: State, index: Index, node: int) -> None:
    row, gpus = state.nodes[node], state.gpus.shape[1]
    works = row[WORKS] and row[CPU] >= 0
    free, key, cell = bits(row[FREE]), fill_key(state, index, node), NIL
    shared, parts_milli = _parts(state, node)
    if works:
        step = row[CPU] // CPU_STEP_MILLI
        line = _node_line(index, gpus, row[KIND], free, parts_milli // PART_MILLI, step // BITS)
        cell = cell_of(index, NODES_OWNER, line, step % BITS)
    plan_move(index, node, cell, (row[CPU], row[MEMORY], 0, 0), key)
    now = shared if works else 0
    left = now | index.behind[node, GPUS_IN_CELLS]
    index.behind[node, GPUS_IN_CELLS] = now
    while left:
        gpu = lowest(left)
        left &= left - 1
        all_milli = free * GPU_MILLI + parts_milli if now >> gpu & 1 else NONE
        _follow_gpu(state, index, node, gpu, all_milli, key)


@compiled
def _follow_gpu(state: State, index: Index, node: int, gpu: int, all_milli: int, key: int) -> None:
    """Bring one GPU in step; `all_milli` is free on its node in all, `NONE` if it offers none."""
    row, use = state.nodes[node], state.gpus[node, gpu]
    free_milli, cell = GPU_MILLI - use[MILLI], NIL
    if all_milli != NONE:
        rest, free = (all_milli - free_milli) // REST_MILLI, free_milli // MILLI_STEP
        step = row[CPU] // SHARED_CPU_STEP_MILLI
        line = _gpu_line(state, index, row[KIND], free, rest, step // BITS)
        cell = cell_of(index, use[OWNER] + 1, line, step % BITS)
    item = 2 * len(state.nodes) + node * state.gpus.shape[1] + gpu
    plan_move(index, item, cell, (row[CPU], row[MEMORY], use[GPU_MEMORY], free_milli), key)


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
def _parts(state: State, node: int) -> tuple[int, int]:
    """(mask of the usable GPUs that are shared and not full, what is free on them)."""
    shared, total = 0, 0
    for gpu in range(state.gpus.shape[1]):
        if state.gpus[node, gpu, OWNER] != NONE and state.nodes[node, USABLE] >> gpu & 1:
            free_milli = GPU_MILLI - state.gpus[node, gpu, MILLI]
            total += free_milli
            shared |= int(free_milli > 0) << gpu
    return shared, total
