"""Places in the same condition, counted as one (core/cells.py): what is in which cell."""

from __future__ import annotations

from shared.core.kernels.indexes import (
    BITS,
    CELL_CPU,
    CELL_LINE,
    CELL_MEMORY,
    CELL_OWNER,
    CELLS_USED,
    CONDITIONS_USED,
    FIRST_CELL,
    HEAD,
    HEAD_KEY,
    LINE_FREE,
    LINE_KIND,
    LINE_REST,
    LINE_WORD,
    LINES_USED,
    OF_GPUS,
    OVERFLOW,
    WORD,
    Index,
)
from shared.core.kernels.jit import compiled
from shared.core.kernels.tree import (
    CELL,
    KEY,
    MOST,
    NIL,
    ROOM,
    ROOT,
    Need,
    change_room,
    insert,
    least,
    precedes,
    remove,
    set_room,
)


@compiled
def move(index: Index, item: int, cell: int, need: Need, key: int) -> None:
    """Bring `item` with `need` free into `cell` (`NIL` for none), there in the order of `key`."""
    old = index.tree[item, CELL]
    if old == cell and index.tree[item, KEY] == key:
        if cell != NIL:
            change_room(index.tree, item, need)
            _raise(index, cell, need[0], need[1])
        return
    if old != NIL:
        _take(index, old, item)
    index.tree[item, KEY] = key
    if cell != NIL:
        set_room(index.tree, item, need)
        _put(index, cell, item, need[0], need[1])


@compiled
def reorder(index: Index, item: int, key: int) -> None:
    """Give `item` another order in its cell, if it is in one."""
    cell = index.tree[item, CELL]
    if cell != NIL:
        _take(index, cell, item)
    index.tree[item, KEY] = key
    if cell != NIL:
        _put(index, cell, item, index.tree[item, ROOM], index.tree[item, ROOM + 1])


@compiled
def cell_of(index: Index, owner: int, line: int, step: int) -> int:
    """The cell of a condition; `NIL` if there is no room for it."""
    if line == NIL:
        return NIL
    first: int = index.words[owner, line, FIRST_CELL]
    if first == NIL:
        first = index.sizes[CELLS_USED]
        if first + BITS > len(index.cells):
            index.sizes[OVERFLOW] = 1
            return NIL
        index.sizes[CELLS_USED] += BITS
        index.words[owner, line, FIRST_CELL] = first
        for cell in range(first, first + BITS):
            index.cells[cell, CELL_OWNER] = owner
            index.cells[cell, CELL_LINE] = line
    return first + step if _has_number(index, line, step) else NIL


@compiled
def _has_number(index: Index, line: int, step: int) -> bool:
    """Whether a condition has a number, now or before; not if there is no room for it."""
    if index.condition_ids[line, step] == NIL:
        condition = index.sizes[CONDITIONS_USED]
        if condition == index.scores.shape[1]:
            index.sizes[OVERFLOW] = 1
            return False
        index.sizes[CONDITIONS_USED] += 1
        index.condition_ids[line, step] = condition
    return True


@compiled
def line_of(
    index: Index, condition: int, of_gpus: int, kind: int, free: int, rest: int, word: int
) -> int:
    """The line of a condition, which is a place in `line_ids`; `NIL` if there is no room."""
    line: int = index.line_ids[condition]
    if line == NIL:
        line = index.sizes[LINES_USED]
        if line == len(index.lines):
            index.sizes[OVERFLOW] = 1
            return NIL
        index.sizes[LINES_USED] += 1
        index.line_ids[condition] = line
        row = index.lines[line]
        row[OF_GPUS], row[LINE_KIND], row[LINE_FREE] = of_gpus, kind, free
        row[LINE_REST], row[LINE_WORD] = rest, word
    return line


@compiled
def know_most(index: Index, cell: int) -> None:
    """A search of a cell was in vain: its bounds are those of its tree, which are tight now."""
    row = index.cells[cell]
    row[CELL_CPU], row[CELL_MEMORY] = index.tree[row[ROOT], MOST], index.tree[row[ROOT], MOST + 1]


@compiled
def _put(index: Index, cell: int, item: int, cpu_milli: int, memory_mib: int) -> None:
    insert(index.tree, index.cells, cell, item)
    index.tree[item, CELL] = cell
    row, key = index.cells[cell], index.tree[item, KEY]
    if row[HEAD] == NIL:
        row[HEAD], row[HEAD_KEY] = item, key
        row[CELL_CPU], row[CELL_MEMORY] = cpu_milli, memory_mib
        _flip(index, cell)
        return
    _raise(index, cell, cpu_milli, memory_mib)
    if precedes(key, item, row[HEAD_KEY], row[HEAD]):
        row[HEAD], row[HEAD_KEY] = item, key


@compiled
def _take(index: Index, cell: int, item: int) -> None:
    remove(index.tree, index.cells, cell, item)
    index.tree[item, CELL] = NIL
    row = index.cells[cell]
    if row[HEAD] == item:
        row[HEAD] = least(index.tree, row[ROOT])
        if row[HEAD] == NIL:
            _flip(index, cell)
        else:
            row[HEAD_KEY] = index.tree[row[HEAD], KEY]


@compiled
def _raise(index: Index, cell: int, cpu_milli: int, memory_mib: int) -> None:
    """No member of a cell has more than its bounds."""
    row = index.cells[cell]
    row[CELL_CPU] = max(row[CELL_CPU], cpu_milli)
    row[CELL_MEMORY] = max(row[CELL_MEMORY], memory_mib)


@compiled
def _flip(index: Index, cell: int) -> None:
    """A cell got its first member or lost its last: the word of its line says so."""
    line, owner = index.cells[cell, CELL_LINE], index.cells[cell, CELL_OWNER]
    words = index.words[owner, line]
    words[WORD] ^= 1 << (cell - words[FIRST_CELL])
    bit = 1 << (line % BITS)
    busy = index.busy[owner]
    busy[line // BITS] = (busy[line // BITS] & ~bit) | (bit if words[WORD] else 0)
