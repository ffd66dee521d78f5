"""The GPUs in MIG mode of one product in one flavor, and where an instance costs the least.

Each profile has a price: slices asked for lately over instances that the pool could still take of
it (now or soon, see `worth` in core/model/mig/table.py). So room for what is asked often and is
short is dear, and room that is plenty or wanted by none is cheap. An instance goes to the GPU
and start where the room that it takes away is worth least at these prices. In the line of FGD
(Weng et al., ATC'23) and MFI (arXiv 2511.18906), which charge every GPU's room alike, however much
there is elsewhere; ADR 16 has the measurements.

GPUs in one state are one row: a decision looks at the states there are (723 at most on boards
with eight slots), not at the GPUs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.model.mig.table import MigTable
from shared.core.scoring.mig_mix import ProfileMix

Ints = NDArray[np.int64]

PRICE: Final = 1 << 30
"""Scale of prices. Weights below 2**14 and losses below 2**13 keep every cost below 2**53."""
TIES: Final = 256
"""Costs are multiplied by this; below it `Move.tie` decides."""
NEVER: Final = (1 << 63) - 1


class _Moves:
    """All moves of one profile on the states known so far, as columns in order of state.

    So of equal costs the lowest state comes first, whatever the pool has seen before.
    """

    def __init__(self, plain: int) -> None:
        self.known = 0
        """States taken in, by number."""
        self.state: Ints = np.empty(0, dtype=np.int64)
        """The number of the state."""
        self.value: Ints = np.empty(0, dtype=np.int64)
        """The state itself."""
        self.tie: Ints = np.empty(0, dtype=np.int64)
        self.start: Ints = np.empty(0, dtype=np.int64)
        self.loss: Ints = np.empty((0, plain), dtype=np.int64)
        """(moves, plain profiles)"""


class MigPool:
    """States with the number of GPUs in each; changed by `CapacityIndex` as GPUs change."""

    def __init__(self, table: MigTable, mix: ProfileMix) -> None:
        self._table = table
        self._mix = mix
        self._states: list[int] = []
        """Every state that was ever seen, in order of appearance."""
        self._numbers: dict[int, int] = {}
        self._gpus: Ints = np.zeros(64, dtype=np.int64)
        """GPUs by number of the state."""
        self._stock: Ints = np.zeros(len(table.plain), dtype=np.int64)
        """Thousandths of instances that the pool could take, by plain profile."""
        self._moves: dict[str, _Moves] = {}
        self._weights: Ints = np.empty(0, dtype=np.int64)
        self._version = -1

    def put(self, state: int) -> None:
        """A GPU came into `state`."""
        self._change(state, 1)

    def take(self, state: int) -> None:
        """A GPU left `state`."""
        self._change(state, -1)

    def offers(self, name: str) -> Iterator[tuple[int, int, int]]:
        """(cost, state, start) of one more instance of `name`, the cheapest first.

        Each state that GPUs are in comes once, with its best start. Do not change the pool
        meanwhile.
        """
        moves = self._moves_of(name)
        there = self._gpus[moves.state] > 0
        cost = np.where(there, TIES * (moves.loss @ self._prices()) + moves.tie, NEVER)
        while len(cost):
            at = int(cost.argmin())
            if cost[at] == NEVER:
                return
            yield int(cost[at]), int(moves.value[at]), int(moves.start[at])
            cost[moves.state == moves.state[at]] = NEVER

    def cheapest(self, states: Mapping[int, int], name: str) -> tuple[int, int]:
        """(GPU, start) for one more instance among GPUs given by index, one of which has room."""
        prices = self._prices().tolist()
        costs = (
            (TIES * sum(map(int.__mul__, move.loss, prices)) + move.tie, gpu, move.start)
            for gpu, state in states.items()
            for move in self._table.moves(state, name)
        )
        _, gpu, start = min(costs)
        return gpu, start

    def _change(self, state: int, gpus: int) -> None:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            if number == len(self._gpus):
                self._gpus = np.concatenate((self._gpus, np.zeros_like(self._gpus)))
        self._gpus[number] += gpus
        self._stock += gpus * np.array(self._table.worth(state), dtype=np.int64)

    def _prices(self) -> Ints:
        """By plain profile: slices asked for over instances there is room for."""
        if self._version != self._mix.version:
            self._version = self._mix.version
            self._weights = _weights(self._table, self._mix)
        prices: Ints = PRICE * self._weights // (1000 + self._stock)
        return prices

    def _moves_of(self, name: str) -> _Moves:
        moves = self._moves.get(name)
        if moves is None:
            moves = self._moves[name] = _Moves(len(self._table.plain))
        if moves.known < len(self._states):
            _extend(moves, self._table, self._states, name)
        return moves


class MigPools:
    """The pools of a flavor, by product."""

    def __init__(self, mix: ProfileMix) -> None:
        self._mix = mix
        self._pools: dict[Hashable, MigPool] = {}

    def pool(self, table: MigTable) -> MigPool:
        """The pool of a product; empty at first."""
        pool = self._pools.get(table)
        if pool is None:
            pool = self._pools[table] = MigPool(table, self._mix)
        return pool


def _weights(table: MigTable, mix: ProfileMix) -> Ints:
    """Slices asked for, by plain profile; one request of each is taken for granted."""
    asked = [1] * len(table.plain)
    for name in table.profiles:
        asked[table.plain_number(name)] += mix.weight(name)
    sizes = [profile.size for profile in table.plain]
    return np.array(asked, dtype=np.int64) * np.array(sizes, dtype=np.int64)


def _extend(moves: _Moves, table: MigTable, states: list[int], name: str) -> None:
    """Take in the moves on states that came up since."""
    fresh = [
        (number, move)
        for number in range(moves.known, len(states))
        for move in table.moves(states[number], name)
    ]
    moves.known = len(states)
    if not fresh:
        return
    losses = np.array([move.loss for _, move in fresh], dtype=np.int64)
    value = np.concatenate((moves.value, _column(states[number] for number, _ in fresh)))
    order = np.argsort(value, kind="stable")
    moves.value = value[order]
    moves.state = np.concatenate((moves.state, _column(each for each, _ in fresh)))[order]
    moves.tie = np.concatenate((moves.tie, _column(move.tie for _, move in fresh)))[order]
    moves.start = np.concatenate((moves.start, _column(move.start for _, move in fresh)))[order]
    moves.loss = np.concatenate((moves.loss, losses))[order]


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)
