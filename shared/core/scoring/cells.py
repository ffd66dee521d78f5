"""Places in the same condition, counted as one: what a decision looks at instead of all nodes.

A cell holds the places (nodes, or shared GPUs) with equal conditions after rounding: node class,
free
GPU, free CPU in steps. A score is worked out for each cell, not for each node; how many cells
there are depends on the steps and not on the size of the fleet. Each cell knows upper bounds of
the free CPU and the free memory of its members, and the least rank among them. Bounds are raised
when a member comes and lowered when a cell was read in vain; they never change an answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.cluster.free_list import Accept
from shared.core.cluster.node_state import NodeState

Ints = NDArray[np.int64]
Member = tuple[int, int, NodeState]
"""(rank of the node, GPU index or -1, node): the order in a cell."""
Row = tuple[int, int, int]
"""(number of the class, two amounts of free GPU): a condition without its step of free CPU."""

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
    """One cell for each condition, by its number.

    The living ones, which have members, stand in the first `_count` places of three arrays: of
    thousands of conditions that were ever seen, hundreds have members at a time.
    """

    def __init__(self) -> None:
        self._members: list[list[Member]] = []
        self._cpu_bounds: list[int] = []
        """By number: the most CPU that a member may have free; -1 without one."""
        self._memory_bounds: list[int] = []
        """The same of memory."""
        self._places: list[int] = []
        """By number: its place among the living, if it is one of them."""
        self._count = 0
        self._living: Ints = np.zeros(64, dtype=np.int64)
        """Their numbers, in no order."""
        self._cpu_max: Ints = np.zeros(64, dtype=np.int64)
        """`_cpu_bounds` of each ..."""
        self._memory_max: Ints = np.zeros(64, dtype=np.int64)
        """... and `_memory_bounds`."""
        self._tie: Ints = np.zeros(64, dtype=np.int64)
        """Higher for a lower rank of the first member; below `TIE`."""

    def put(self, number: int, member: Member) -> None:
        """Add a member."""
        while number >= len(self._members):
            self._members.append([])
            self._cpu_bounds.append(-1)
            self._memory_bounds.append(-1)
            self._places.append(-1)
        members = self._members[number]
        if not members:
            self._begin(number)
        insort(members, member)
        if members[0] is member:
            self._tie[self._places[number]] = TIE - 1 - (member[0] >> RANK_SHIFT)
        self.raise_bounds(number, member[2])

    def raise_bounds(self, number: int, node: NodeState) -> None:
        """A member may have more CPU or memory free than before."""
        if node.free_cpu_milli > self._cpu_bounds[number]:
            self._cpu_bounds[number] = node.free_cpu_milli
            self._cpu_max[self._places[number]] = node.free_cpu_milli
        if node.free_memory_mib > self._memory_bounds[number]:
            self._memory_bounds[number] = node.free_memory_mib
            self._memory_max[self._places[number]] = node.free_memory_mib

    def take(self, number: int, member: Member) -> None:
        """Remove a member; it must be there."""
        members = self._members[number]
        at = bisect_left(members, member)
        del members[at]
        if not members:
            self._end(number)
        elif not at:
            self._tie[self._places[number]] = TIE - 1 - (members[0][0] >> RANK_SHIFT)

    def best(
        self,
        scores: Ints,
        cpu_milli: int,
        memory_mib: int,
        exclude: Container[NodeState] = (),
        accept: Accept | None = None,
    ) -> tuple[int, Member] | None:
        """(score, member) with the room: the highest score, then the least rank.

        `scores` are multiples of `TIE`, or `REFUSED`, by the number of the condition.
        """
        count = self._count
        if not count:
            return None
        scored = scores[self._living[:count]]
        fits = (self._memory_max[:count] >= memory_mib) & (self._cpu_max[:count] >= cpu_milli)
        left = np.where(fits, scored + self._tie[:count], REFUSED)
        while True:
            place = self._first_of_best(left)
            if left[place] < REFUSED + TIE:
                return None
            number = int(self._living[place])
            for member in self._members[number]:
                node = member[2]
                if (
                    node.free_cpu_milli >= cpu_milli
                    and node.free_memory_mib >= memory_mib
                    and node not in exclude
                    and (accept is None or accept(node, member[1]))
                ):
                    return int(scored[place]), member
            self._tighten(number)
            left[place] = REFUSED

    def of_score(self, scores: Ints, score: int) -> Iterator[Member]:
        """Members of cells with `score`, cell by cell in the order of their numbers."""
        living = self._living[: self._count]
        for number in sorted(living[scores[living] == score].tolist()):
            yield from self._members[number]

    def _first_of_best(self, left: Ints) -> int:
        """The place with the highest number; of equals the one with the least first member."""
        place = int(left.argmax())
        equals = np.flatnonzero(left == left[place])
        if len(equals) == 1 or left[place] < REFUSED + TIE:
            return place
        # GPUs of one node, in cells with numbers that tell nothing but their age.
        return min(map(int, equals), key=lambda each: self._members[self._living[each]][0])

    def _tighten(self, number: int) -> None:
        nodes, place = [member[2] for member in self._members[number]], self._places[number]
        cpu = max(node.free_cpu_milli for node in nodes)
        memory = max(node.free_memory_mib for node in nodes)
        self._cpu_bounds[number] = self._cpu_max[place] = cpu
        self._memory_bounds[number] = self._memory_max[place] = memory

    def _begin(self, number: int) -> None:
        """It has its first member: it stands behind the other living ones."""
        place = self._places[number] = self._count
        self._count += 1
        if place == len(self._living):
            self._grow()
        self._living[place] = number
        self._cpu_max[place] = self._memory_max[place] = -1

    def _end(self, number: int) -> None:
        """It has no member: the last of the living takes its place."""
        self._count -= 1
        place, last = self._places[number], self._count
        moved = int(self._living[last])
        for column in (self._living, self._cpu_max, self._memory_max, self._tie):
            column[place] = column[last]
        self._places[moved] = place
        self._cpu_bounds[number] = self._memory_bounds[number] = self._places[number] = -1

    def _grow(self) -> None:
        none = np.zeros(len(self._living), dtype=np.int64)
        self._living = np.concatenate((self._living, none))
        self._cpu_max = np.concatenate((self._cpu_max, none))
        self._memory_max = np.concatenate((self._memory_max, none))
        self._tie = np.concatenate((self._tie, none))
