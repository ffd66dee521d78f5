"""The three parts of what is held, and days."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from shared.core.model.value import Value
from shared.core.quota.cost import DAY_MS


class UseAmounts(Value, frozen=True, kw_only=True):
    """Milli-GPU milliseconds that are held."""

    used: int = 0
    """Held times use."""
    unused: int = 0
    """Held and measured, without use."""
    unmeasured: int = 0
    """Held while no reading counts."""

    @property
    def allocated(self) -> int:
        """All that is held: the sum of the parts."""
        return self.used + self.unused + self.unmeasured

    @classmethod
    def within(cls, allocated: int, *, used: int, unused: int) -> Self:
        """What was measured, held to `allocated`; the rest of it is unmeasured.

        More is measured than charged where an end is told later than a reading: the excess is
        taken from what is unused first.
        """
        used = min(used, allocated)
        unused = min(unused, allocated - used)
        return cls(used=used, unused=unused, unmeasured=allocated - used - unused)


def parts_of_days(from_ms: int, until_ms: int) -> Iterator[tuple[int, int, int]]:
    """[from_ms, until_ms) cut at midnight UTC: (day since 1970, begin, end). O(days)."""
    while from_ms < until_ms:
        day = from_ms // DAY_MS
        end_ms = min(until_ms, (day + 1) * DAY_MS)
        yield day, from_ms, end_ms
        from_ms = end_ms
