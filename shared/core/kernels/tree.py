"""Ordered sets of places, many in one array, with the first that has room found in O(log).

A treap (Seidel and Aragon, 1996): a search tree by (key, item), a heap by a fixed pseudo-random
priority, so its form depends on its members alone and undo restores it. Each item lies in at most
one tree of its array. Nothing is looked for to take it out: members know what they hang on.

Every subtree has bounds: no member has more free of an amount, and a search leaves out subtrees
that cannot help. Bounds rise as members come and do not fall as they go, which would take a look
at both children of all that is above; a search that went through a subtree in vain makes its
bounds tight. What is found does not depend on how tight they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.kernels.arrays import Ints32
from shared.core.kernels.jit import compiled

LEFT: Final = 0
RIGHT: Final = 1
PARENT: Final = 2
PRIORITY: Final = 3
KEY: Final = 4
ROOM: Final = 5
"""First of `AMOUNTS` columns: what the item has free."""
AMOUNTS: Final = 4
"""CPU, memory, GPU memory, milli of a GPU."""
MOST: Final = ROOM + AMOUNTS
"""First of `AMOUNTS` columns: no member of its subtree has more."""
CELL: Final = MOST + AMOUNTS
"""The cell whose tree it is in, or `NIL`."""
LINE_BYTES: Final = 64
COLUMNS: Final = LINE_BYTES // 4
"""A row is a line of the cache; the last columns are not used."""
ROOT: Final = 0
"""Column of `cells`: the root of the tree, or `NIL`."""
NIL: Final = -1

Need = tuple[int, int, int, int]
"""The amounts, in the order of the columns."""


def new_tree(items: int) -> Ints32:
    """(items, COLUMNS) no item in any tree yet."""
    tree = _cache_lines(items)
    tree[:, LEFT] = tree[:, RIGHT] = tree[:, PARENT] = tree[:, CELL] = NIL
    tree[:, PRIORITY] = _priorities(items)
    return tree


def _cache_lines(items: int) -> Ints32:
    """(items, COLUMNS) zeros; no row lies in two lines of the cache."""
    words = np.zeros((items + 1) * COLUMNS, dtype=np.int32)
    skipped = -words.ctypes.data % LINE_BYTES // words.itemsize
    return words[skipped : skipped + items * COLUMNS].reshape(items, COLUMNS)


def _priorities(items: int) -> Ints32:
    """Fixed numbers without a pattern: the finalizer of SplitMix64 over 0, 1, 2 ..."""
    mixed = np.arange(1, items + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(34)).astype(np.int32)


@compiled
def insert(tree: Ints32, cells: Ints32, at: int, item: int) -> None:
    """Put `item`, whose key and room are set, into the tree whose root is `cells[at, ROOT]`."""
    node = cells[at, ROOT]
    parent, side = NIL, LEFT
    while node != NIL and _above(tree, node, item):
        _raise(tree, node, item, ROOM)
        parent, side = node, LEFT if before(tree, item, node) else RIGHT
        node = tree[node, side]
    _hang(tree, cells, at, parent, side, item)
    for each in range(AMOUNTS):
        tree[item, MOST + each] = tree[item, ROOM + each]
    if node != NIL:
        _raise(tree, item, node, MOST)
    _split(tree, node, item)


@compiled
def remove(tree: Ints32, cells: Ints32, at: int, item: int) -> None:
    """Take `item` out of the tree whose root is `cells[at, ROOT]`; it must be there."""
    parent = tree[item, PARENT]
    side = RIGHT if parent != NIL and tree[parent, RIGHT] == item else LEFT
    _merge(tree, cells, at, parent, side, item)


@compiled
def change_room(tree: Ints32, item: int, need: Need) -> None:
    """Set what `item` has free; it must be in a tree."""
    set_room(tree, item, need)
    node = item
    while node != NIL and _raise(tree, node, item, ROOM):
        node = tree[node, PARENT]


@compiled
def set_room(tree: Ints32, item: int, need: Need) -> None:
    """Set what `item` has free, while it is in no tree."""
    for each in range(AMOUNTS):
        tree[item, ROOM + each] = need[each]


@compiled
def least(tree: Ints32, root: int) -> int:
    """The first member, or `NIL`."""
    node = root
    while node != NIL and tree[node, LEFT] != NIL:
        node = tree[node, LEFT]
    return node


@compiled
def first(tree: Ints32, root: int, key: int, need: Need) -> int:
    """The first member of at least `key` that has what is needed, or `NIL`.

    Bounds of subtrees that were searched in vain are tight afterwards.
    """
    if root == NIL or not _has(tree, root, MOST, need):
        return NIL
    node = _leftmost(tree, root, key, need)
    while True:
        if tree[node, KEY] >= key and _has(tree, node, ROOM, need):
            return int(node)
        right = tree[node, RIGHT]
        if right != NIL and _has(tree, right, MOST, need):
            node = _leftmost(tree, right, key, need)
            continue
        node = _climb(tree, root, node)
        if node == NIL:
            return NIL


@compiled
def _leftmost(tree: Ints32, node: int, key: int, need: Need) -> int:
    """The first member below `node` to look at, by its key and by the bounds."""
    while tree[node, KEY] >= key:
        left = tree[node, LEFT]
        if left == NIL or not _has(tree, left, MOST, need):
            break
        node = left
    return node


@compiled
def _climb(tree: Ints32, root: int, node: int) -> int:
    """What comes next above `node`, below which all was in vain, or `NIL`; bounds become tight."""
    while True:
        _recount(tree, node)
        if node == root:
            return NIL
        parent = tree[node, PARENT]
        if tree[parent, LEFT] == node:
            return int(parent)
        node = parent


@compiled
def _has(tree: Ints32, node: int, column: int, need: Need) -> bool:
    return bool(
        tree[node, column] >= need[0]
        and tree[node, column + 1] >= need[1]
        and tree[node, column + 2] >= need[2]
        and tree[node, column + 3] >= need[3]
    )


@compiled
def before(tree: Ints32, item: int, other: int) -> bool:
    """Order of the members."""
    return precedes(tree[item, KEY], item, tree[other, KEY], other)


@compiled
def precedes(key: int, item: int, other_key: int, other: int) -> bool:
    """Order of keys, then of numbers."""
    return item < other if key == other_key else key < other_key


@compiled
def _above(tree: Ints32, node: int, item: int) -> bool:
    """Order of the heap."""
    mine, theirs = tree[node, PRIORITY], tree[item, PRIORITY]
    return node < item if mine == theirs else mine > theirs


@compiled
def _hang(tree: Ints32, cells: Ints32, at: int, parent: int, side: int, node: int) -> None:
    if parent == NIL:
        cells[at, ROOT] = node
    else:
        tree[parent, side] = node
    if node != NIL:
        tree[node, PARENT] = parent


@compiled
def _split(tree: Ints32, node: int, item: int) -> None:
    """Hang the members of `node` that come before `item` on its left, the others on its right."""
    left, left_side = item, LEFT
    right, right_side = item, RIGHT
    while node != NIL:
        if before(tree, node, item):
            tree[left, left_side], tree[node, PARENT] = node, left
            left, left_side = node, RIGHT
            node = tree[node, RIGHT]
        else:
            tree[right, right_side], tree[node, PARENT] = node, right
            right, right_side = node, LEFT
            node = tree[node, LEFT]
    tree[left, left_side] = NIL
    tree[right, right_side] = NIL


@compiled
def _merge(tree: Ints32, cells: Ints32, at: int, parent: int, side: int, item: int) -> None:
    """Put the two subtrees of `item` in its place."""
    left, right = tree[item, LEFT], tree[item, RIGHT]
    while left != NIL and right != NIL:
        upper, lower = (left, right) if _above(tree, left, right) else (right, left)
        _raise(tree, upper, lower, MOST)
        _hang(tree, cells, at, parent, side, upper)
        parent = upper
        if upper == left:
            side = RIGHT
            left = tree[left, RIGHT]
        else:
            side = LEFT
            right = tree[right, LEFT]
    _hang(tree, cells, at, parent, side, right if left == NIL else left)


@compiled
def _raise(tree: Ints32, node: int, other: int, column: int) -> bool:
    """Bounds of `node` hold for the columns of `other` from `column` on; whether they rose."""
    risen = False
    for each in range(AMOUNTS):
        if tree[other, column + each] > tree[node, MOST + each]:
            tree[node, MOST + each] = tree[other, column + each]
            risen = True
    return risen


@compiled
def _recount(tree: Ints32, node: int) -> None:
    """Make the bounds of `node` as tight as those of its children."""
    left, right = tree[node, LEFT], tree[node, RIGHT]
    for each in range(AMOUNTS):
        most = tree[node, ROOM + each]
        if left != NIL:
            most = max(most, tree[left, MOST + each])
        if right != NIL:
            most = max(most, tree[right, MOST + each])
        tree[node, MOST + each] = most
