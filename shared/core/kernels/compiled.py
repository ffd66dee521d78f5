"""The compiled back-end: it works off a list of requests, one call for all of them.

Compiled code cannot make its arrays longer. So it stops at a request for which there may not be
room, says what is missing, and is called again from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from shared.core.cluster import Cluster
from shared.core.kernels.arrays import (
    ANYWHERE,
    GANG,
    NONE,
    PLACE,
    PODS,
    POOL,
    REQUEST_COLUMNS,
    SHAPE,
    SLOT,
    TEAM,
    WHAT,
    WIDEST,
    Ints,
    State,
    Tables,
)
from shared.core.kernels.charge import give_back, undo
from shared.core.kernels.fleet import Fleet, no_tables
from shared.core.kernels.follow import follow_cells, note_change
from shared.core.kernels.gangs import place_gang
from shared.core.kernels.indexes import (
    EPOCH,
    KEEPING,
    LOG_ROWS,
    OVERFLOW,
    Index,
    new_index,
    with_log,
    with_more_cells,
    with_pool,
    with_shapes,
    with_teams,
)
from shared.core.kernels.jit import compiled, edition, entry
from shared.core.kernels.rooms import begin_pool
from shared.core.kernels.shelves import follow_shelves
from shared.core.kernels.single import place_single

DONE: Final = 0
NEEDS_CELLS: Final = 1
NEEDS_LOG: Final = 2
NEEDS_POOL: Final = 3

Run = Callable[[int, Tables, State, Index, Ints, int], tuple[int, int]]

ANSWER: Final = 0
ENTER: Final = 1
COUNT_POOL: Final = 2
UNDO: Final = 3


@compiled
def answer_all(
    tables: Tables, state: State, index: Index, requests: Ints, begin: int
) -> tuple[int, int]:
    """(number of the first request left over, what it misses)."""
    for at in range(begin, len(requests)):
        if not index.sizes[KEEPING]:
            index.sizes[LOG_ROWS] = 0
        missing = _missing_for(state, index, requests[at])
        if missing != DONE:
            return at, missing
        _answer(tables, state, index, requests[at])
    return len(requests), DONE


@compiled
def _missing_for(state: State, index: Index, request: Ints) -> int:
    """What a request needs that only Python can give; or `DONE`."""
    if request[WHAT] == PLACE:
        follow_cells(state, index)
    if index.sizes[OVERFLOW]:
        return NEEDS_CELLS
    if index.sizes[LOG_ROWS] + request[PODS] > len(index.log):
        return NEEDS_LOG
    in_fabric = request[WHAT] == GANG and request[WIDEST] > 0
    return NEEDS_POOL if in_fabric and state.shapes[request[SHAPE], POOL] == NONE else DONE


@compiled
def _answer(tables: Tables, state: State, index: Index, request: Ints) -> None:
    """Work off one request for which nothing is missing."""
    slot, shape, team, pods = request[SLOT], request[SHAPE], request[TEAM], request[PODS]
    if request[WHAT] == PLACE:
        place_single(tables, state, index, slot, shape, team)
    elif request[WHAT] == GANG:
        anywhere = request[ANYWHERE] != 0
        place_gang(state, index, slot, shape, team, pods, request[WIDEST], anywhere)
    else:
        for each in range(pods):
            give_back(state, index, slot + each)


@compiled
def _enter_all(state: State, index: Index) -> None:
    """Put every node into the cells and on the shelves."""
    for node in range(len(state.nodes)):
        note_change(index, node)
    follow_cells(state, index)
    follow_shelves(state, index)


def _entry() -> Run:
    """The one function that Python calls."""
    fleet = Fleet(Cluster(), "")
    tables, state, index = no_tables(), fleet.state, new_index(fleet.state, 0)
    now = edition()

    @entry((0, tables, state, index, no_requests(0), 0))
    def run(
        what: int, tables: Tables, state: State, index: Index, requests: Ints, number: int
    ) -> tuple[int, int]:
        if what == ANSWER:
            return answer_all(tables, state, index, requests, number)
        if what == ENTER:
            _enter_all(state, index)
        elif what == COUNT_POOL:
            follow_shelves(state, index)
            return now, begin_pool(state, index, number)
        else:
            undo(state, index, number)
        return now, 0

    return run


def no_requests(count: int) -> Ints:
    """(count, REQUEST_COLUMNS) to be filled."""
    return np.zeros((count, REQUEST_COLUMNS), dtype=np.int64)


_run = _entry()


class Compiled:
    """Decides for one fleet, whose `state` it changes."""

    def __init__(self, fleet: Fleet) -> None:
        """O(n log n)."""
        self.fleet = fleet
        self._tables = fleet.tables
        self._pools: dict[bytes, int] = {}
        self._index = new_index(fleet.state, len(fleet.teams))
        self._index.sizes[EPOCH] = 1
        self._call(ENTER, 0)

    @property
    def index(self) -> Index:
        """What it keeps beside the state, in arrays that are replaced as they grow."""
        return self._index

    def run(self, requests: Ints) -> None:
        """Work off requests (n, REQUEST_COLUMNS) in order; answers are in `State.held`.

        `fleet.learn` must have been called.
        """
        self._follow_fleet()
        at, missing = _run(ANSWER, self._tables, self.fleet.state, self._index, requests, 0)
        while missing != DONE:
            self._provide(missing, requests[at])
            at, missing = _run(ANSWER, self._tables, self.fleet.state, self._index, requests, at)

    def mark(self) -> int:
        """A point to roll back to; from the first one on, everything is logged."""
        sizes = self._index.sizes
        if not sizes[KEEPING]:
            sizes[LOG_ROWS], sizes[KEEPING] = 0, 1
        return int(sizes[LOG_ROWS])

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`."""
        self._call(UNDO, mark)

    def keep(self) -> None:
        """What was done stays; marks are void."""
        self._index.sizes[[LOG_ROWS, KEEPING]] = 0

    def _follow_fleet(self) -> None:
        """Teams, shapes and tables may be new since the last call."""
        self._index = with_teams(self._index, len(self.fleet.teams))
        self._index = with_shapes(self._index, len(self.fleet.state.shapes))
        if self.fleet.tables is not self._tables:
            self._tables = self.fleet.tables
            self._index.sizes[EPOCH] += 1

    def _provide(self, missing: int, request: Ints) -> None:
        if missing == NEEDS_CELLS:
            self._index = with_more_cells(self.fleet.state, self._index)
            self._call(ENTER, 0)
        elif missing == NEEDS_LOG:
            self._index = with_log(self._index, int(request[PODS]))
        else:
            self._count_pool(int(request[SHAPE]))

    def _count_pool(self, shape: int) -> None:
        kinds = self.fleet.state.allowed[shape].tobytes()
        if kinds not in self._pools:
            self._index = with_pool(self._index)
            self._pools[kinds] = self._call(COUNT_POOL, shape)
        self.fleet.state.shapes[shape, POOL] = self._pools[kinds]

    def _call(self, what: int, number: int) -> int:
        state, none = self.fleet.state, no_requests(0)
        return int(_run(what, self._tables, state, self._index, none, number)[1])
