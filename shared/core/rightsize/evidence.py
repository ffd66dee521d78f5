"""What was seen of like work for as long as it was seen: how busy its GPUs, how full their memory.

Weights are milliseconds of one GPU. Use is kept by its per cent; memory by classes of a
thirty-second of its size, each told by its upper end, so nothing looks smaller than it was.
Quantiles are those of weights: the smallest value that all but a part of the time keeps to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Final

_MEMORY_BITS: Final = 6
"""Leading bits of an amount of memory that are kept."""
_DIGEST: Final = range(4, 13)
"""Characters of a digest in a name; shorter ones may mean something, as `a1` does."""

Weights = Mapping[int, int]
"""Milliseconds by value."""


def memory_class(mib: int) -> int:
    """The upper end of the class of an amount of memory, in MiB; at most 3.2 % above it."""
    width = 1 << max(mib.bit_length() - _MEMORY_BITS, 0)
    return mib // width * width + width - 1


def quantile(weights: Weights, percent: int) -> int:
    """The smallest value that `percent` (1 to 100) of the weight does not exceed.

    Raises ValueError where nothing was seen. O(values x log).
    """
    least = sum(weights.values()) * percent
    if least <= 0:
        raise ValueError("nothing was seen")
    values = sorted(weights)
    so_far = accumulate(weights[value] * 100 for value in values)
    return next(value for value, sum_ in zip(values, so_far, strict=True) if sum_ >= least)


def without_counter(name: str) -> str:
    """A name without the number or digest that tells one run from the next.

    `train-17`, `train-18` and `train-2026-11-28` are `train`; a name of nothing else stays.
    """
    parts = name.split("-")
    while len(parts) > 1 and _is_counter(parts[-1]):
        parts.pop()
    return "-".join(parts)


def _is_counter(part: str) -> bool:
    return part.isdecimal() or (
        len(part) in _DIGEST
        and any(one.isdecimal() for one in part)
        and all(one in "0123456789abcdef" for one in part)
    )
