"""One pod at its best place: the rule of core/market.py over cells in arrays."""

from __future__ import annotations

from typing import Final

from shared.core.kernels.arrays import (
    BOARD,
    CPU,
    CPU_PER_GPU,
    FREE,
    GPUS,
    NONE,
    POD_CPU,
    POD_MEMORY,
    SCORED_AS,
    SHARE,
    SHARE_MEMORY,
    Ints32,
    State,
    Tables,
)
from shared.core.kernels.bits import lowest
from shared.core.kernels.cells import know_most
from shared.core.kernels.charge import hold
from shared.core.kernels.indexes import (
    BITS,
    CELL_CPU,
    CELL_MEMORY,
    CONDITIONS_USED,
    EPOCH,
    FIRST_CELL,
    HEAD,
    HEAD_KEY,
    LINE_FREE,
    LINE_KIND,
    LINE_WORD,
    LINES_USED,
    NODES_OWNER,
    OF_GPUS,
    WORD,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.scores import REFUSED, SCORE_SHIFT, score_of
from shared.core.kernels.tree import NIL, ROOT, Need, first, precedes
from shared.core.market_scores import CPU_STEP_MILLI, SHARED_CPU_STEP_MILLI
from shared.core.share_values import MILLI_STEP

EVERY_STEP: Final = (1 << BITS) - 1


@compiled
def place_single(
    tables: Tables, state: State, index: Index, slot: int, shape: int, team: int
) -> bool:
    """Place one pod; whether there was a place."""
    pod, gpus = state.shapes[shape], state.gpus.shape[1]
    scored = pod[SCORED_AS]
    _forget_scores(index, scored)
    opened = max(pod[GPUS], int(pod[SHARE] > 0))
    need = (pod[POD_CPU], pod[POD_MEMORY], 0, 0)
    node, score = best(tables, state, index, scored, NODES_OWNER, opened, need)
    if pod[SHARE]:
        need = (pod[POD_CPU], pod[POD_MEMORY], pod[SHARE_MEMORY], pod[SHARE])
        free = pod[SHARE] // MILLI_STEP
        item, gpu_score = best(tables, state, index, scored, team + 1, free, need)
        if item != NIL and gpu_score >= score:
            gpu = item - 2 * len(state.nodes)
            hold(state, index, slot, gpu // gpus, 1 << (gpu % gpus), shape, team)
            return True
    if node == NIL:
        return False
    hold(state, index, slot, node, pick(state, node, opened), shape, team)
    return True


@compiled
def best(
    tables: Tables, state: State, index: Index, shape: int, owner: int, free: int, need: Need
) -> tuple[int, int]:
    """(item, score) of the highest score among the cells of `owner`; `NIL` if nothing fits.

    `shape` is the one that the pod is scored as; what it needs is `need`.

    Lines with less than `free` are passed over, and after the most promising line all that cannot
    do better. Between cells of one score the first head decides, whether it fits or not: as in
    core/cells.py. The bounds of a cell nearly always tell whether a member fits. If they were too
    high they are tight then, and the next best is taken; if tight bounds do not tell, because one
    member has the CPU and another the memory, every cell is searched.
    """
    top = _most_promising(tables, state, index, shape, owner, free)
    if top == NIL:
        return NIL, REFUSED
    while True:
        cell, score = _best_cell(index, shape, owner, top, need, False)
        if cell == NIL:
            return NIL, REFUSED
        item = first(index.tree, index.cells[cell, ROOT], NONE, need)
        if item != NIL:
            return item, score
        know_most(index, cell)
        if _may_hold(index.cells[cell], need):
            break
    cell, score = _best_cell(index, shape, owner, top, need, True)
    if cell == NIL:
        return NIL, REFUSED
    return first(index.tree, index.cells[cell, ROOT], NONE, need), score


@compiled
def _may_hold(cell: Ints32, need: Need) -> bool:
    """Whether the bounds of a cell leave room."""
    return bool(cell[CELL_CPU] >= need[0] and cell[CELL_MEMORY] >= need[1])


@compiled
def _best_cell(
    index: Index, shape: int, owner: int, top: int, need: Need, search: bool
) -> tuple[int, int]:
    """(cell, score) of the best that has room by its bounds, or by a `search`; or `NIL`.

    The line `top` is looked at first.
    """
    tops = index.tops[shape]
    found, score = _best_of(index, shape, owner, top, need, search, NIL, REFUSED)
    for at in range(index.busy.shape[1]):
        lines = index.busy[owner, at]
        while lines:
            line = at * BITS + lowest(lines)
            lines &= lines - 1
            if tops[line] >= score + SCORE_SHIFT and line != top:
                found, score = _best_of(index, shape, owner, line, need, search, found, score)
    return found, score


@compiled
def _most_promising(
    tables: Tables, state: State, index: Index, shape: int, owner: int, free: int
) -> int:
    """The line with the highest score of any step that it ever had; `NIL` if all are refused.

    `Index.tops` covers all members of `owner` then.
    """
    tops, seen, words = index.tops[shape], index.seen[shape], index.words[owner]
    top, top_score = NIL, SCORE_SHIFT + REFUSED
    for at in range(index.busy.shape[1]):
        lines = index.busy[owner, at]
        while lines:
            line = at * BITS + lowest(lines)
            lines &= lines - 1
            steps = words[line, WORD] & ~seen[line]
            if steps:
                _look_at(tables, state, index, shape, line, steps, free)
            if tops[line] > top_score:
                top, top_score = line, tops[line]
    return top


@compiled
def _look_at(
    tables: Tables, state: State, index: Index, shape: int, line: int, steps: int, free: int
) -> None:
    """Score steps of a line that were not seen yet."""
    if (
        index.lines[line, LINE_FREE] < free
        or not state.allowed[shape, index.lines[line, LINE_KIND]]
    ):
        index.seen[shape, line] = EVERY_STEP
        return
    index.seen[shape, line] |= steps
    top = index.tops[shape, line]
    while steps:
        step = lowest(steps)
        steps &= steps - 1
        top = max(top, _known_score(tables, state, index, shape, line, step))
    index.tops[shape, line] = top


@compiled
def _best_of(
    index: Index,
    shape: int,
    owner: int,
    line: int,
    need: Need,
    search: bool,
    found: int,
    found_score: int,
) -> tuple[int, int]:
    """(cell, score): what was found, or a better one on this line."""
    steps, scores, ids = index.words[owner, line, WORD], index.scores[shape], index.condition_ids
    too_low = need[0] // (SHARED_CPU_STEP_MILLI if index.lines[line, OF_GPUS] else CPU_STEP_MILLI)
    too_low = min(max(too_low - index.lines[line, LINE_WORD] * BITS, 0), BITS)
    steps = (steps >> too_low) << too_low
    while steps:
        step = lowest(steps)
        steps &= steps - 1
        score = scores[ids[line, step]] - SCORE_SHIFT
        if score < found_score or score == REFUSED:
            continue
        cell = index.words[owner, line, FIRST_CELL] + step
        row = index.cells[cell]
        if not _may_hold(row, need):
            continue
        if score == found_score:
            other = index.cells[found]
            if not precedes(row[HEAD_KEY], row[HEAD], other[HEAD_KEY], other[HEAD]):
                continue
        if not search or first(index.tree, row[ROOT], NONE, need) != NIL:
            found, found_score = cell, score
    return found, found_score


@compiled
def _known_score(
    tables: Tables, state: State, index: Index, shape: int, line: int, step: int
) -> int:
    """`SCORE_SHIFT` + score of a cell, worked out once for each condition, shape and mix."""
    condition = index.condition_ids[line, step]
    known: int = index.scores[shape, condition]
    if known == 0:
        known = SCORE_SHIFT + score_of(tables, state.shapes[shape], index.lines[line], step)
        index.scores[shape, condition] = known
    return known


@compiled
def _forget_scores(index: Index, shape: int) -> None:
    """The tables changed since scores of `shape` were asked for."""
    if index.epochs[shape] != index.sizes[EPOCH]:
        index.epochs[shape] = index.sizes[EPOCH]
        for condition in range(index.sizes[CONDITIONS_USED]):
            index.scores[shape, condition] = 0
        for line in range(index.sizes[LINES_USED]):
            index.tops[shape, line] = index.seen[shape, line] = 0


@compiled
def pick(state: State, node: int, count: int) -> int:
    """Mask of `count` free GPUs of a node that has them, by the table of its board."""
    return state.picks[state.nodes[node, BOARD], state.nodes[node, FREE], count] if count else 0


@compiled
def tightest(
    state: State, index: Index, shape: int, gpus: int, cpu_milli: int, memory_mib: int
) -> int:
    """The node with the fewest free GPUs that suffice: `_find_free` of core/search.py."""
    need = (cpu_milli, memory_mib, 0, 0)
    for free in range(gpus, state.gpus.shape[1] + 1):
        item = _tightest_with(state, index, shape, free, free - gpus, need)
        if item != NIL:
            return item - len(state.nodes)
    return NONE


@compiled
def _tightest_with(
    state: State, index: Index, shape: int, free: int, left: int, need: Need
) -> int:
    """Among nodes with `free` GPUs: one that keeps CPU for the `left` ones, else any."""
    tree, shelves = index.tree, state.gpus.shape[1] + 1
    found, found_spare = NIL, False
    for kind in range(len(state.kinds)):
        root = index.cells[kind * shelves + free, ROOT]
        if root == NIL or not state.allowed[shape, kind]:
            continue
        keep_milli = left * state.kinds[kind, CPU_PER_GPU]
        item = first(tree, root, need[0] + keep_milli, need)
        spare = item != NIL
        if not spare and keep_milli and not found_spare:
            item = first(tree, root, need[0], need)
        if item != NIL and (
            found == NIL
            or (spare and not found_spare)
            or (spare == found_spare and _tighter(state, item, found))
        ):
            found, found_spare = item, spare
    return found


@compiled
def _tighter(state: State, item: int, other: int) -> bool:
    """Order of shelves: free CPU, then rank."""
    nodes = len(state.nodes)
    mine, theirs = state.nodes[item - nodes, CPU], state.nodes[other - nodes, CPU]
    return item < other if mine == theirs else mine < theirs
