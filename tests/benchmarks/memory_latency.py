"""What memory alone costs: the time of a read that has to wait for the one before it.

A decision goes from node to node of trees, and each step is such a read. When the arrays of a
fleet no longer fit a cache, it takes longer, whatever the algorithm: a bound to print beside how
the cost of a decision grows (a pointer chase; McVoy and Staelin, lmbench, 1996).
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from shared.core.kernels.jit import compiled

LINE_BYTES = 64
READS = 1_000_000
RUNS = 5


def read_ns(size_bytes: int) -> float:
    """Nanoseconds of one read at random in so much memory; the least of some runs."""
    following = chain(max(size_bytes // LINE_BYTES, 2))
    follow(following, 0, READS)
    return min(_seconds(following) for _ in range(RUNS)) * 1e9 / READS


def chain(lines: int) -> NDArray[np.int64]:
    """Where to read next, once through the first word of every cache line in random order."""
    order = np.random.default_rng(0).permutation(lines) * (LINE_BYTES // 8)
    following = np.zeros(lines * (LINE_BYTES // 8), dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


@compiled
def follow(following: NDArray[np.int64], place: int, reads: int) -> int:
    """The place after so many reads."""
    for _ in range(reads):
        place = following[place]
    return place


def _seconds(following: NDArray[np.int64]) -> float:
    start = time.thread_time()
    follow(following, 0, READS)
    return time.thread_time() - start
