"""Places in the same condition, counted as one (core/cells.py): what is in which cell."""

from __future__ import annotations

from shared.core.kernels.indexes import (
    BITS,
    CELL_LINE,
    CELL_OWNER,
    CELLS_USED,
    CONDITIONS_USED,
    FIRST_CELL,
    HEAD,
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
    NIL,
    ROOT,
    Need,
    before,
    change_room,
    insert,
    least,
    remove,
    set_room,
)


@compiled
def move(index: Index, item: int, cell: int, need: Need, key: int) -> None:
    """Bring `item` with `need` free into `cell` (`NIL` for none), there in the order of `key`."""
    old = index.tree[item, CELL]
    if old == cell and index.tree[item, KEY] == key:
        if cell != NIL:
            change_room(index.tree, index.cells[cell, ROOT], item, need, index.path)
        return
    if old != NIL:
        _take(index, old, item)
    index.tree[item, KEY] = key
    if cell != NIL:
        set_room(index.tree, item, need)
        _put(index, cell, item)


@compiled
def reorder(index: Index, item: int, key: int) -> None:
    """Give `item` another order in its cell, if it is in one."""
    cell = index.tree[item, CELL]
    if cell != NIL:
        _take(index, cell, item)
    index.tree[item, KEY] = key
    if cell != NIL:
        _put(index, cell, item)


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
def _put(index: Index, cell: int, item: int) -> None:
    insert(index.tree, index.cells, cell, item, index.path)
    index.tree[item, CELL] = cell
    head = index.cells[cell, HEAD]
    if head == NIL or before(index.tree, item, head):
        _set_head(index, cell, head, item)


@compiled
def _take(index: Index, cell: int, item: int) -> None:
    remove(index.tree, index.cells, cell, item, index.path)
    index.tree[item, CELL] = NIL
    if index.cells[cell, HEAD] == item:
        _set_head(index, cell, item, least(index.tree, index.cells[cell, ROOT]))


@compiled
def _set_head(index: Index, cell: int, old: int, head: int) -> None:
    """The first member is `head`; where there was none or will be none, the word says so."""
    line, owner = int(index.cells[cell, CELL_LINE]), index.cells[cell, CELL_OWNER]
    if line == NIL:
        return
    index.cells[cell, HEAD] = head
    if old == NIL or head == NIL:
        words = index.words[owner, line]
        words[WORD] ^= 1 << (cell - words[FIRST_CELL])
        bit = 1 << (line % BITS)
        busy = index.busy[owner]
        busy[line // BITS] = (busy[line // BITS] & ~bit) | (bit if words[WORD] else 0)
