"""Bits of a word, in loops that the compiler knows as one instruction each."""

from __future__ import annotations

from shared.core.kernels.jit import compiled


@compiled
def bits(word: int) -> int:
    """How many bits of a word that is not negative are set."""
    count = 0
    while word:
        word &= word - 1
        count += 1
    return count


@compiled
def lowest(word: int) -> int:
    """Number of the lowest bit of a word that is not 0."""
    return bits((word & -word) - 1)
