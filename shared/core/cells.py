"""Places in the same condition, counted as one: what a decision looks at instead of all nodes.

A cell holds the places (nodes, or shared GPUs) whose condition is equal after rounding: kind, free
GPU, free CPU in steps. A score is worked out for each cell, not for each node; how many cells
there are depends on the steps and not on the size of the fleet. Each cell knows an upper bound of
the free memory of its members and the least rank among them. Bounds are raised when a member comes
and lowered when a cell was read in vain; they never change an answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.node_state import NodeState
from shared.core.shelf import Accept

Ints = NDArray[np.int64]
Member = tuple[int, int, NodeState]
"""(rank of the node, GPU index or -1, node): the order in a cell."""
Row = tuple[int, int, int]
"""(number of the kind, two amounts of free GPU): a condition without its step of free CPU."""

TIE: Final = 1 << 38
"""Scores are multiples of this; below it the rank decides."""
RANK_SHIFT: Final = 25
"""A rank has 63 bits, of which the upper 38 tell cells apart; where they agree, all of them do."""
REFUSED: Final = -(1 << 62)
"""The score of a cell that is out of the question."""


class Conditions:
    """Conditions that were ever seen, numbered in order of appearance."""

    def __init__(self) -> None:
        self.size = 0
        self.columns: Ints = np.zeros((64, 4), dtype=np.int64)
        """(conditions, 4): see `Row`, and the step of free CPU."""
        self._rows: dict[Row, dict[int, int]] = {}

    def number(self, row: Row, step: int, step_max: int) -> int:
        """The number of a condition; when its row is new, all steps to `step_max` get one."""
        steps = self._rows.get(row)
        if steps is None:
            steps = self._rows[row] = {}
            for each in range(step_max + 1 if step_max else 0):
                self._add(row, each, steps)
        number = steps.get(step)
        return self._add(row, step, steps) if number is None else number

    def _add(self, row: Row, step: int, steps: dict[int, int]) -> int:
        number = steps[step] = self.size
        if number == len(self.columns):
            self.columns = np.concatenate((self.columns, np.zeros_like(self.columns)))
        self.columns[number] = (*row, step)
        self.size += 1
        return number


class Cells:
    """One cell for each condition, by its number."""

    def __init__(self) -> None:
        self._members: list[list[Member]] = []
        self._bounds: list[int] = []
        """The most memory that a member may have free; -1 without one ..."""
        self._memory_max: Ints = np.full(64, -1, dtype=np.int64)
        """... and the same as an array."""
        self._tie: Ints = np.zeros(64, dtype=np.int64)
        """Higher for a lower rank of the first member; below `TIE`."""

    def put(self, number: int, member: Member) -> None:
        """Add a member."""
        while number >= len(self._members):
            self._members.append([])
            self._bounds.append(-1)
        while number >= len(self._tie):
            self._grow()
        members = self._members[number]
        insort(members, member)
        if members[0] is member:
            self._tie[number] = TIE - 1 - (member[0] >> RANK_SHIFT)
        self.raise_bounds(number, member[2])

    def raise_bounds(self, number: int, node: NodeState) -> None:
        """A member may have more memory free than before."""
        if node.free_memory_mib > self._bounds[number]:
            self._bounds[number] = self._memory_max[number] = node.free_memory_mib

    def take(self, number: int, member: Member) -> None:
        """Remove a member; it must be there."""
        members = self._members[number]
        at = bisect_left(members, member)
        del members[at]
        if not members:
            self._bounds[number] = self._memory_max[number] = -1
        elif not at:
            self._tie[number] = TIE - 1 - (members[0][0] >> RANK_SHIFT)

    def best(
        self,
        scores: Ints,
        cpu_milli: int,
        memory_mib: int,
        exclude: Container[NodeState] = (),
        accept: Accept | None = None,
    ) -> tuple[int, Member] | None:
        """(score, member) with the room: the highest score, then the least rank.

        `scores` are multiples of `TIE`, or `REFUSED`. There must have been a member.
        """
        size = len(self._members)
        fits = self._memory_max[:size] >= memory_mib
        left = np.where(fits, scores[:size] + self._tie[:size], REFUSED)
        while True:
            number = int(left.argmax())
            if left[number] < REFUSED + TIE:
                return None
            equals = np.flatnonzero(left == left[number])
            if len(equals) > 1:
                # GPUs of one node, in cells whose numbers tell nothing but their age.
                number = min(map(int, equals), key=lambda each: self._members[each][0])
            score = int(scores[number])
            for member in self._members[number]:
                node = member[2]
                if (
                    node.free_cpu_milli >= cpu_milli
                    and node.free_memory_mib >= memory_mib
                    and node not in exclude
                    and (accept is None or accept(node, member[1]))
                ):
                    return score, member
            self._tighten(number)
            left[number] = REFUSED

    def of_score(self, scores: Ints, score: int) -> Iterator[Member]:
        """Members whose cell has `score`, cell by cell."""
        for number in np.flatnonzero(scores[: len(self._members)] == score):
            yield from self._members[number]

    def _tighten(self, number: int) -> None:
        members = self._members[number]
        bound = max(member[2].free_memory_mib for member in members)
        self._bounds[number] = self._memory_max[number] = bound

    def _grow(self) -> None:
        none = np.full(len(self._tie), -1, dtype=np.int64)
        self._memory_max = np.concatenate((self._memory_max, none))
        self._tie = np.concatenate((self._tie, none))
