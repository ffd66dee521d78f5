"""Places in the same condition, counted as one: what a decision looks at instead of all nodes.

A cell holds the places (nodes, or shared GPUs) whose condition is equal after rounding: kind, free
GPU, free CPU in steps. A score is worked out for each cell, not for each node; how many cells
there are depends on the steps and not on the size of the fleet. Each cell knows an upper bound of
the free CPU and memory of its members and the least rank among them. Bounds are raised when a
member comes and lowered when a cell was read in vain; they never change an answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from shared.core.node_state import NodeState
from shared.core.shelf import Accept

Ints = NDArray[np.int64]
Member = tuple[int, int, NodeState]
"""(rank of the node, GPU index or -1, node): the order in a cell."""
Condition = tuple[int, int, int, int]
"""(number of the kind, two amounts of free GPU, steps of free CPU)."""

REFUSED = -(1 << 60)
"""The score of a cell that is out of the question."""


class Conditions:
    """Conditions that were ever seen, numbered in order of appearance."""

    def __init__(self) -> None:
        self.size = 0
        self.columns: Ints = np.zeros((64, 4), dtype=np.int64)
        """(conditions, 4): see `Condition`."""
        self._numbers: dict[Condition, int] = {}

    def number(self, condition: Condition) -> int:
        """The number of a condition, a new one if need be."""
        number = self._numbers.get(condition)
        if number is None:
            number = self._numbers[condition] = self.size
            if number == len(self.columns):
                self.columns = np.concatenate((self.columns, np.zeros_like(self.columns)))
            self.columns[number] = condition
            self.size += 1
        return number


class Cells:
    """One cell for each condition, by its number."""

    def __init__(self) -> None:
        self._members: list[list[Member]] = []
        self._cpu_max: Ints = np.full(64, -1, dtype=np.int64)
        self._memory_max: Ints = np.full(64, -1, dtype=np.int64)
        self._rank_min: Ints = np.zeros(64, dtype=np.int64)

    def put(self, number: int, member: Member) -> None:
        """Add a member."""
        while number >= len(self._members):
            self._members.append([])
        if number >= len(self._cpu_max):
            self._grow()
        members = self._members[number]
        insort(members, member)
        self._rank_min[number] = members[0][0]
        self.raise_bounds(number, member[2])

    def raise_bounds(self, number: int, node: NodeState) -> None:
        """A member may have more room than before."""
        if node.free_cpu_milli > self._cpu_max[number]:
            self._cpu_max[number] = node.free_cpu_milli
        if node.free_memory_mib > self._memory_max[number]:
            self._memory_max[number] = node.free_memory_mib

    def take(self, number: int, member: Member) -> None:
        """Remove a member; it must be there."""
        members = self._members[number]
        del members[bisect_left(members, member)]
        if members:
            self._rank_min[number] = members[0][0]
        else:
            self._cpu_max[number] = self._memory_max[number] = -1

    def best(
        self,
        scores: Ints,
        cpu_milli: int,
        memory_mib: int,
        exclude: Container[NodeState] = (),
        accept: Accept | None = None,
    ) -> tuple[int, Member] | None:
        """(score, member) with the room: the highest score, then the least rank."""
        size = len(self._members)
        fits = self._cpu_max[:size] >= cpu_milli
        fits &= self._memory_max[:size] >= memory_mib
        left = np.where(fits, scores[:size], REFUSED)
        while size:
            score = int(left.max())
            if score == REFUSED:
                return None
            equals = np.flatnonzero(left == score)
            number = int(equals[self._rank_min[equals].argmin()])
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
        return None

    def _tighten(self, number: int) -> None:
        members = self._members[number]
        self._cpu_max[number] = max(member[2].free_cpu_milli for member in members)
        self._memory_max[number] = max(member[2].free_memory_mib for member in members)

    def _grow(self) -> None:
        none = np.full(2 * len(self._members), -1, dtype=np.int64)
        self._cpu_max = np.concatenate((self._cpu_max, none))
        self._memory_max = np.concatenate((self._memory_max, none))
        self._rank_min = np.concatenate((self._rank_min, none))
