"""Sorting of whole numbers, in the little code that compiles in no time."""

from __future__ import annotations

from typing import Final

from shared.core.kernels.arrays import Ints
from shared.core.kernels.jit import compiled

GAPS: Final = (57313, 25472, 11321, 5031, 2236, 1751, 701, 301, 132, 57, 23, 10, 4, 1)


@compiled
def sort(keys: Ints, size: int) -> None:
    """Put the first `size` keys in rising order. Shell's sort with the gaps of Ciura (2001)."""
    for gap in GAPS:
        for at in range(gap, size):
            key, free = keys[at], at
            while free >= gap and keys[free - gap] > key:
                keys[free] = keys[free - gap]
                free -= gap
            keys[free] = key


@compiled
def position(keys: Ints, size: int, key: int) -> int:
    """Of the first of the sorted keys that is not below `key`; `size` if all are."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low
