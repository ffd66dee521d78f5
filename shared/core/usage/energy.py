"""What the boards of a node drew, for each holder of their GPUs.

A reading counts for as long as its use does. Of a board each holder has the part that it holds:
what is not held counts for none, and the instances of a board (MIG) are not metered apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shared.core.usage.amounts import parts_of_days
from shared.core.usage.settling import HeldShare, Reading


def energy(
    reading: Reading, held: Mapping[str, Sequence[HeldShare]], from_ms: int, until_ms: int
) -> Iterator[tuple[str, int, int]]:
    """(holder, day since 1970 UTC, microjoules) in [from_ms, until_ms). O(days x shares)."""
    watts = reading.watts
    if not watts:
        return
    for day, begin_ms, end_ms in parts_of_days(from_ms, until_ms):
        counted_ms = reading.counted_ms(begin_ms, end_ms)
        for holder, shares in held.items():
            drawn = sum(watts[gpu] * milli for gpu, milli, _ in shares if gpu < len(watts))
            yield holder, day, drawn * counted_ms
