"""What the compiled back-end keeps beside the state, so that no decision looks at all of it.

Four indexes, in step after each change of a node: cells of nodes and cells of shared GPUs
(core/market.py), shelves of nodes by free GPUs (core/kind.py), and how many pods of 1 to G GPUs
each domain of the fabric has room for (core/room.py). And the scores of cells that were asked for.

A *line* is a condition without its step of free CPU, cut into words of `BITS` steps; a cell is one
bit of a line, and belongs to one owner: all nodes have one, shared GPUs that of their team. Lines
are numbered when they are first used: of all that are possible few ever are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from shared.core.kernels.arrays import (
    CPU_IN_ALL,
    FILLED,
    FREE,
    LEVELS,
    NONE,
    OTHERS_WHOLE,
    PATH,
    WHOLE,
    Bools,
    Ints,
    Ints32,
    State,
)
from shared.core.kernels.tree import AMOUNTS, NIL, new_tree
from shared.core.market_scores import CPU_STEP_MILLI, SHARED_CPU_STEP_MILLI
from shared.core.share_values import MILLI_STEP
from shared.core.units import GPU_MILLI

BITS: Final = 63
"""Steps of free CPU in a word: a word is never negative."""

# Columns of `words`, by owner and line
WORD: Final = 0
"""Bit s: the cell of step s has a member."""
FIRST_CELL: Final = 1
"""The cell of step 0, or `NIL` before the line is first used."""

# Columns of `lines`
OF_GPUS: Final = 0
"""1 for a condition of shared GPUs, 0 for one of nodes."""
LINE_KIND: Final = 1
LINE_FREE: Final = 2
"""Free GPUs of the node; hundredths of the shared GPU."""
LINE_REST: Final = 3
"""Half GPUs that are free on shared ones; pairs of GPUs that are free beside the shared one."""
LINE_WORD: Final = 4
"""Which of the words of the condition."""
LINE_COLUMNS: Final = 5

# Columns of `cells`, after ROOT
HEAD: Final = 1
"""First member, or `NIL`."""
HEAD_KEY: Final = 2
"""Its key: what decides between cells is in the row of the cell."""
CELL_OWNER: Final = 3
CELL_LINE: Final = 4
"""`NIL` for a shelf."""
CELL_CPU: Final = 5
CELL_MEMORY: Final = 6
"""No member has more free (kernels/tree.py)."""
CELL_COLUMNS: Final = 8

# Columns of `log`
SIGN: Final = 0
"""1 for held, -1 for given back; then slot and what `State.held` has."""
LOG_COLUMNS: Final = 6

# Places in `sizes`
CELLS_USED: Final = 0
LINES_USED: Final = 1
CONDITIONS_USED: Final = 2
OVERFLOW: Final = 3
"""1 when there was no room for a cell, line or condition: they are to be made anew with more."""
POOLS: Final = 4
LOG_ROWS: Final = 5
KEEPING: Final = 6
"""1 while the caller wants to be able to roll back."""
EPOCH: Final = 7
"""Number of the tables in force, from 1 on."""
NODE_WORDS: Final = 8
"""Words for all steps of a condition of nodes."""
GPU_WORDS: Final = 9
QUEUE_LENGTH: Final = 10
CELLS_BEHIND: Final = 11
"""Nodes that changed since the cells followed last ..."""
SHELVES_BEHIND: Final = 12
"""... and since shelves and rooms did."""
MOVES_PLANNED: Final = 13
READ: Final = 14
"""Something made of what was read ahead, so that it is read (kernels/moves.py)."""
SIZES: Final = 15

# Columns of `moves`
MOVE_ITEM: Final = 0
MOVE_CELL: Final = 1
MOVE_KEY: Final = 2
MOVE_NODE: Final = 3
"""How far the walk to its new place has come, or `NIL`."""
MOVE_NEED: Final = 4
"""First of the amounts of kernels/tree.py."""
MOVE_COLUMNS: Final = MOVE_NEED + AMOUNTS

# Columns of `behind`
GPUS_IN_CELLS: Final = 0
"""Mask of the GPUs of the node that are in cells."""
ROOM_FREE: Final = 1
"""Free GPUs of the node, as rooms count them."""
CELLS_QUEUED: Final = 2
"""1 while the node is in the queue of those ..."""
CELLS_QUEUE: Final = 3
"""... that are in its first `CELLS_BEHIND` rows."""
SHELVES_QUEUED: Final = 4
SHELVES_QUEUE: Final = 5
"""Likewise, in the first `SHELVES_BEHIND` rows."""
BEHIND_COLUMNS: Final = 6

# Columns of `whole`
WHOLE_NODES: Final = 0
QUEUED: Final = 1
"""1 while the domain is in the queue of those whose nodes come in another order."""
QUEUE: Final = 2
"""The queue, in its first `QUEUE_LENGTH` rows."""
WHOLE_COLUMNS: Final = 3

FREE_STEPS: Final = GPU_MILLI // MILLI_STEP + 1
"""Conditions of the free part of a shared GPU."""
NODES_OWNER: Final = 0
"""Owner of all nodes; team t is owner t + 1."""
GROUP: Final = 64
"""Domains that a search for room leaves out at once."""
LINES_ROOM: Final = 1024
CONDITIONS_ROOM: Final = 8192
LOG_ROOM: Final = 1024
MOVES_ROOM: Final = 32
"""Moves planned before they are carried out; those of one node stay together."""


class Index(NamedTuple):
    """All indexes. Items: node i as i in cells, as n + i on shelves; its GPU g as 2n + iG + g."""

    line_ids: Ints32
    """By condition and word (see kernels/follow.py): number of the line, or `NIL`."""
    lines: Ints32
    """(lines, LINE_COLUMNS)"""
    busy: Ints
    """(owners, words) bit l: line l has a member."""
    words: Ints
    """(owners, lines, 2)"""
    cells: Ints32
    """(cells, CELL_COLUMNS); the first K x (G + 1) are the shelves."""
    tree: Ints32
    """(items, COLUMNS), see kernels/tree.py."""
    condition_ids: Ints32
    """(lines, BITS) number of each condition, or `NIL`: close together in memory, as used."""
    scores: Ints32
    """(S, conditions) score + `SCORE_SHIFT`, or 0 while not known; S as in `SCORED_AS`."""
    tops: Ints32
    """(S, lines) the highest of those scores among the steps in `seen`, or 0 for none."""
    seen: Ints
    """(S, lines) bit s: step s counts in `tops`."""
    epochs: Ints
    """(S,) the tables that `scores` were made by."""
    rooms: Ints32
    """(pools x G, D) pods that a domain has room for; row pool x G + GPUs of a pod - 1."""
    most_room: Ints32
    """(pools x G, D / GROUP) the most room in each group of `GROUP` domains in a row."""
    pool_kinds: Bools
    """(pools, K) kinds of node that count in the pool."""
    whole: Ints32
    """(D, WHOLE_COLUMNS) wholly free nodes of racks and NVLink domains (kernels/filling.py)."""
    behind: Ints32
    """(n, BEHIND_COLUMNS) what cells, shelves and rooms know of the nodes, and which changed."""
    log: Ints
    """(rows, LOG_COLUMNS)"""
    moves: Ints
    """(MOVES_ROOM + 1 + G, MOVE_COLUMNS) moves that are planned (kernels/moves.py)."""
    sizes: Ints
    """(SIZES,)"""
    scratch: Ints
    """(LEVELS, 1 + n + D) scratch for the parts of domains, by depth."""


def new_index(
    state: State,
    teams: int,
    *,
    lines: int = LINES_ROOM,
    used_lines: int = LINES_ROOM,
    conditions: int = CONDITIONS_ROOM,
) -> Index:
    """Indexes that hold nothing yet, with room for so many lines, and cells for `used_lines`.

    A line is used by each owner that has a member in it.
    """
    nodes, gpus = state.gpus.shape[:2]
    kinds, domains, shapes = len(state.kinds), len(state.domains) - 1, len(state.shapes)
    node_words, gpu_words = (
        words_of(state, step) for step in (CPU_STEP_MILLI, SHARED_CPU_STEP_MILLI)
    )
    possible = kinds * (
        (gpus + 1) * (2 * gpus + 1) * node_words + FREE_STEPS * (gpus // 2 + 1) * gpu_words
    )
    index = Index(
        line_ids=np.full(possible, NIL, dtype=np.int32),
        lines=np.zeros((lines, LINE_COLUMNS), dtype=np.int32),
        busy=np.zeros((teams + 1, -(-lines // BITS)), dtype=np.int64),
        words=_no_words(teams + 1, lines),
        cells=np.full((kinds * (gpus + 1) + used_lines * BITS, CELL_COLUMNS), NIL, dtype=np.int32),
        tree=new_tree(nodes * (2 + gpus)),
        condition_ids=np.full((lines, BITS), NIL, dtype=np.int32),
        scores=np.zeros((shapes, conditions), dtype=np.int32),
        tops=np.zeros((shapes, lines), dtype=np.int32),
        seen=np.zeros((shapes, lines), dtype=np.int64),
        epochs=np.zeros(shapes, dtype=np.int64),
        rooms=np.zeros((gpus, domains), dtype=np.int32),
        most_room=np.zeros((gpus, -(-domains // GROUP)), dtype=np.int32),
        pool_kinds=np.zeros((1, kinds), dtype=np.bool_),
        whole=np.zeros((domains, WHOLE_COLUMNS), dtype=np.int32),
        behind=np.zeros((nodes, BEHIND_COLUMNS), dtype=np.int32),
        log=np.zeros((LOG_ROOM, LOG_COLUMNS), dtype=np.int64),
        moves=np.zeros((MOVES_ROOM + 1 + gpus, MOVE_COLUMNS), dtype=np.int64),
        sizes=np.zeros(SIZES, dtype=np.int64),
        scratch=np.zeros((LEVELS, 1 + len(state.places)), dtype=np.int64),
    )
    index.sizes[[CELLS_USED, NODE_WORDS]] = kinds * (gpus + 1), node_words
    index.sizes[GPU_WORDS] = gpu_words
    index.whole[:, WHOLE_NODES] = whole_nodes(state)
    return index


def whole_nodes(state: State) -> Ints:
    """(D,) wholly free nodes of each rack and NVLink domain. O(n)."""
    whole = state.nodes[:, FREE] == state.nodes[:, WHOLE]
    domains = state.nodes[whole, PATH : PATH + FILLED]
    counts = np.bincount(domains[domains != NONE], minlength=len(state.domains) - 1)
    return state.domains[:-1, OTHERS_WHOLE] + counts


def words_of(state: State, step_milli: int) -> int:
    """Words for all steps of free CPU of the largest node."""
    return 1 + int(state.kinds[:, CPU_IN_ALL].max(initial=0)) // step_milli // BITS


def with_teams(index: Index, teams: int) -> Index:
    """Room for so many teams."""
    missing = teams + 1 - len(index.words)
    if missing <= 0:
        return index
    more = max(missing, len(index.words))
    busy = np.zeros((more, index.busy.shape[1]), dtype=np.int64)
    return index._replace(
        busy=np.concatenate((index.busy, busy)),
        words=np.concatenate((index.words, _no_words(more, len(index.lines)))),
    )


def with_shapes(index: Index, shapes: int) -> Index:
    """Room for so many shapes; their scores are made again when asked for."""
    if shapes <= len(index.epochs):
        return index
    lines = len(index.lines)
    return index._replace(
        scores=np.zeros((shapes, index.scores.shape[1]), dtype=np.int32),
        tops=np.zeros((shapes, lines), dtype=np.int32),
        seen=np.zeros((shapes, lines), dtype=np.int64),
        epochs=np.zeros(shapes, dtype=np.int64),
    )


def with_pool(index: Index) -> Index:
    """Room for one more pool."""
    if index.sizes[POOLS] < len(index.pool_kinds):
        return index
    return index._replace(
        rooms=np.concatenate((index.rooms, np.zeros_like(index.rooms))),
        most_room=np.concatenate((index.most_room, np.zeros_like(index.most_room))),
        pool_kinds=np.concatenate((index.pool_kinds, np.zeros_like(index.pool_kinds))),
    )


def with_log(index: Index, rows: int) -> Index:
    """Room for so many rows more, for which there is none."""
    missing = int(index.sizes[LOG_ROWS]) + rows - len(index.log)
    more = np.zeros((max(missing, len(index.log)), LOG_COLUMNS), dtype=np.int64)
    return index._replace(log=np.concatenate((index.log, more)))


def with_more_cells(state: State, index: Index) -> Index:
    """Twice of whatever ran out, and no cell, line or condition in use; all else stays."""
    lines, used_lines = len(index.lines), len(index.cells) // BITS
    conditions = index.scores.shape[1]
    if index.sizes[LINES_USED] == lines:
        lines *= 2
    elif index.sizes[CONDITIONS_USED] == conditions:
        conditions *= 2
    else:
        used_lines *= 2
    anew = new_index(
        state,
        len(index.words) - 1,
        lines=lines,
        used_lines=used_lines,
        conditions=conditions,
    )
    kept = {name: getattr(index, name) for name in ("rooms", "most_room", "pool_kinds", "log")}
    anew.behind[:, ROOM_FREE] = index.behind[:, ROOM_FREE]
    anew.sizes[[POOLS, LOG_ROWS, KEEPING, EPOCH]] = index.sizes[[POOLS, LOG_ROWS, KEEPING, EPOCH]]
    return anew._replace(**kept)


def _no_words(owners: int, lines: int) -> Ints:
    words = np.zeros((owners, lines, 2), dtype=np.int64)
    words[:, :, FIRST_CELL] = NIL
    return words
