"""Nodes (or single GPUs) in order of one amount, so that the tightest fit is found by bisection.

A free list is a sorted list cut into chunks. Each chunk knows an upper bound of the free CPU and
the free memory of the nodes on it: a search leaps over chunks that cannot help, so a full cluster
is refused as cheaply as an empty one is filled. Bounds are raised when an entry is put in and
lowered when a chunk was read to its end in vain; they never change an answer. O(sqrt n) at worst.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterator
from itertools import islice
from typing import Final

from shared.core.cluster.node_state import NodeState

Entry = tuple[int, int, int, NodeState]
"""(amount, rank of the node, GPU index or -1, node): the order of the free list."""
Accept = Callable[[NodeState, int], bool]

CHUNK: Final = 96
"""About the square root of 10,000 nodes: chunks to leap over, and entries to read in one."""


class FreeList:
    """A sorted multiset of entries; see the module for the idea."""

    __slots__ = ("_chunks", "_cpu_bounds", "_lasts", "_memory_bounds", "size")

    def __init__(self) -> None:
        self._chunks: list[list[Entry]] = []
        self._lasts: list[Entry] = []
        self._cpu_bounds: list[int] = []
        self._memory_bounds: list[int] = []
        self.size = 0

    def add(self, entry: Entry) -> None:
        """Put `entry` in its place, and raise the bounds of its chunk to its node's free room."""
        self.size += 1
        if not self._chunks:
            self._insert_chunk(0, [entry])
            return
        at = min(bisect_left(self._lasts, entry), len(self._lasts) - 1)
        chunk = self._chunks[at]
        insort(chunk, entry)
        if len(chunk) > 2 * CHUNK:
            self._delete_chunk(at)
            self._insert_chunk(at, chunk[CHUNK:])
            self._insert_chunk(at, chunk[:CHUNK])
            return
        self._lasts[at] = chunk[-1]
        node = entry[3]
        self._cpu_bounds[at] = max(self._cpu_bounds[at], node.free_cpu_milli)
        self._memory_bounds[at] = max(self._memory_bounds[at], node.free_memory_mib)

    def remove(self, entry: Entry) -> None:
        """Take `entry` out; it must be there."""
        at = bisect_left(self._lasts, entry)
        chunk = self._chunks[at]
        position = bisect_left(chunk, entry)
        assert chunk[position] == entry
        del chunk[position]
        self.size -= 1
        if chunk:
            self._lasts[at] = chunk[-1]
        else:
            self._delete_chunk(at)

    def first(
        self,
        amount: int,
        cpu_milli: int,
        memory_mib: int,
        *,
        exclude: Container[NodeState] = (),
        accept: Accept | None = None,
    ) -> Entry | None:
        """The smallest entry of at least `amount` on a node with the CPU and memory free."""
        start: tuple[int, ...] = (amount,)
        first = bisect_left(self._lasts, start)
        for at in range(first, len(self._chunks)):
            if self._cpu_bounds[at] < cpu_milli or self._memory_bounds[at] < memory_mib:
                continue
            chunk = self._chunks[at]
            begin = bisect_left(chunk, start) if at == first else 0
            for position in range(begin, len(chunk)):
                entry = chunk[position]
                node = entry[3]
                if (
                    node.free_cpu_milli >= cpu_milli
                    and node.free_memory_mib >= memory_mib
                    and node not in exclude
                    and (accept is None or accept(node, entry[2]))
                ):
                    return entry
            self._tighten(at)
        return None

    def fitting(self, amount: int, cpu_milli: int, memory_mib: int) -> Iterator[Entry]:
        """All entries that `first` could answer, in order. Do not change the list meanwhile."""
        start = (amount,)
        for at in range(bisect_left(self._lasts, start), len(self._chunks)):
            if self._cpu_bounds[at] < cpu_milli or self._memory_bounds[at] < memory_mib:
                continue
            chunk = self._chunks[at]
            for entry in islice(chunk, bisect_left(chunk, start), None):
                node = entry[3]
                if node.free_cpu_milli >= cpu_milli and node.free_memory_mib >= memory_mib:
                    yield entry

    def count_from(self, amount: int) -> int:
        """Number of entries of at least `amount`. O(chunks)."""
        start = (amount,)
        first = bisect_left(self._lasts, start)
        if first == len(self._chunks):
            return 0
        skipped = bisect_left(self._chunks[first], start)
        return sum(map(len, self._chunks[first:])) - skipped

    def below(self, amount: int) -> Iterator[Entry]:
        """Entries of less than `amount`, the largest first."""
        start = (amount,)
        for at in range(min(bisect_left(self._lasts, start), len(self._chunks) - 1), -1, -1):
            chunk = self._chunks[at]
            for position in range(bisect_left(chunk, start) - 1, -1, -1):
                yield chunk[position]

    def most_memory(self, amount: int) -> Entry | None:
        """The entry of at least `amount` on the node with most memory free; the last of equals.

        Chunks that cannot have more are leapt over: few are read where memory comes with CPU.
        """
        best: Entry | None = None
        first = bisect_left(self._lasts, (amount,))
        for at in range(len(self._chunks) - 1, first - 1, -1):
            if best is not None and self._memory_bounds[at] <= best[3].free_memory_mib:
                continue
            for entry in reversed(self._chunks[at]):
                if entry[0] < amount:
                    break
                if best is None or entry[3].free_memory_mib > best[3].free_memory_mib:
                    best = entry
            self._tighten(at)
        return best

    def last(self) -> Entry:
        """The largest entry; there must be one."""
        return self._lasts[-1]

    def __iter__(self) -> Iterator[Entry]:
        for chunk in self._chunks:
            yield from chunk

    def _tighten(self, at: int) -> None:
        chunk = self._chunks[at]
        self._cpu_bounds[at] = max(entry[3].free_cpu_milli for entry in chunk)
        self._memory_bounds[at] = max(entry[3].free_memory_mib for entry in chunk)

    def _insert_chunk(self, at: int, chunk: list[Entry]) -> None:
        self._chunks.insert(at, chunk)
        self._lasts.insert(at, chunk[-1])
        self._cpu_bounds.insert(at, 0)
        self._memory_bounds.insert(at, 0)
        self._tighten(at)

    def _delete_chunk(self, at: int) -> None:
        for column in (self._chunks, self._lasts, self._cpu_bounds, self._memory_bounds):
            del column[at]
