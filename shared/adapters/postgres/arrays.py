"""What asyncpg takes for an array, told by plain types.

For every element of every array asyncpg asks two abstract classes whether it is an array itself
(`asyncpg/protocol/codecs/array.pyx`). That was a quarter of the CPU time of the gateway's
projection and 5 to 10 % of every other service. Here arrays are lists, tuples and sets.
"""

from __future__ import annotations

from typing import Final

from asyncpg.protocol import protocol

ARRAYS: Final[tuple[type, ...]] = (list, tuple, set, frozenset, type({}.keys()), type({}.values()))


def tell_arrays_by_type() -> None:
    """Call once, before the first statement; again is harmless."""
    protocol.IterableABC = ARRAYS
