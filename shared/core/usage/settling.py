"""What the newest reading of a node makes of a span of time, for each holder of its GPUs.

A reading counts from its own time until the next one of that node, and for a minute at most; what
lies outside is unmeasured. The use of a GPU that several share is split by what each holds, and
nobody uses more than it holds. A GPU instance (MIG) has a use of its own: where that is not told,
what is held of it is unmeasured, as the use of the board says nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value
from shared.core.usage.amounts import UseAmounts, parts_of_days

READING_MS_MAX: Final = 60_000
"""For so long a reading counts at most."""
UNREAD: Final = -1
"""Use of a GPU that could not be read."""
WHOLE_MASK: Final = 0xFF
"""Memory slices of a whole GPU; a time-sliced share has none."""

HeldShare = tuple[int, int, int]
"""(index of the GPU, milli-GPU, memory slices as a mask)."""
Settled = tuple[str, int, UseAmounts]
"""(holder, day since 1970 UTC, what it held)."""


class Reading(Value, frozen=True, kw_only=True):
    """The use of the GPUs of one node at one time."""

    at_ms: int = 0
    percent: tuple[int, ...] = ()
    """By index of the GPU; `UNREAD` says nothing."""
    instances: tuple[tuple[int, int, int], ...] = ()
    """(index of the GPU, memory slices as a mask, per cent) of GPU instances."""
    watts: tuple[int, ...] = ()
    """What each board draws, by index of the GPU; empty: not known."""

    def counted_ms(self, from_ms: int, until_ms: int) -> int:
        """Milliseconds of [from_ms, until_ms) for which it counts."""
        begin = max(from_ms, self.at_ms)
        return max(min(until_ms, self.at_ms + READING_MS_MAX) - begin, 0)


def settle(
    reading: Reading, held: Mapping[str, Sequence[HeldShare]], from_ms: int, until_ms: int
) -> Iterator[Settled]:
    """What each of `held` amounts to in [from_ms, until_ms); `reading` is the newest then.

    O(days x shares).
    """
    on_gpu: Counter[int] = Counter()
    for shares in held.values():
        for gpu, milli, _ in shares:
            on_gpu[gpu] += milli
    instances = {(gpu, mask): percent for gpu, mask, percent in reading.instances}
    for day, begin_ms, end_ms in parts_of_days(from_ms, until_ms):
        counted_ms = reading.counted_ms(begin_ms, end_ms)
        for holder, shares in held.items():
            used = unused = 0
            total = sum(milli for _, milli, _ in shares) * (end_ms - begin_ms)
            for gpu, milli, mask in shares:
                own = _use_milli(reading, instances, (gpu, milli, mask), on_gpu[gpu])
                if own is not None:
                    part = own[0] * counted_ms // own[1]
                    used += part
                    unused += milli * counted_ms - part
            yield holder, day, UseAmounts.within(total, used=used, unused=unused)


def _use_milli(
    reading: Reading,
    instances: Mapping[tuple[int, int], int],
    share: HeldShare,
    on_gpu_milli: int,
) -> tuple[int, int] | None:
    """Milli-GPU of a share that compute, as a fraction; None where nothing is known."""
    gpu, milli, mask = share
    percent = instances.get((gpu, mask))
    if percent is not None:
        return milli * percent, 100
    is_instance = mask not in {0, WHOLE_MASK}
    if is_instance or gpu >= len(reading.percent) or reading.percent[gpu] == UNREAD:
        return None
    whole, parts = GPU_MILLI * reading.percent[gpu] * milli, 100 * max(on_gpu_milli, 1)
    return min(whole, milli * parts), parts
