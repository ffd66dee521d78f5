"""What the free part of a shared GPU is worth to the shares that are asked for.

Shares come in few sizes, so some rests are used up by others (320 beside 650) and some by nobody
(190 beside 810). A share is worth its dual price in the linear program of cutting stock: GPUs are
the rolls, the shares of the learned mix the pieces (Gilmore and Gomory, 1961). A rest is worth the
dearest shares that fit into it together. So a share that is placed loses what the rest was worth
beyond the share and the rest that is left: nothing, where an optimal packing combines them.

Arithmetic is that of Python's floats, in a fixed order: the same mix gives the same values on
every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.mix import PodClass
from shared.core.units import GPU_MILLI

MILLI_STEP: Final = 10
"""Step in which the free part of one shared GPU is told apart."""
STEPS: Final = GPU_MILLI // MILLI_STEP
SIZES_MAX: Final = 24
"""Sizes of shares that are priced, the most asked for first; others are worth what they hold."""
ROUNDS_MAX: Final = 64
"""Patterns that may come in: 20 sizes were seen to need 44. Some 15 ms at most."""
TOLERANCE: Final = 1e-7
KEPT: Final = 16
"""Mixes whose values are kept: kinds of nodes come and go more often than the mix changes."""
NOBODY: Final = -1
"""No share is taken at this point; the rest goes on one step smaller."""


def rest_values(counts: Mapping[PodClass, int]) -> NDArray[np.float64]:
    """(free milli / 10,) what a rest is worth, from 0 to 1000 of a whole GPU; 0 without shares."""
    asked: dict[int, int] = {}
    for each, count in counts.items():
        if each.milli and not each.gpus:
            size = -(-each.milli // MILLI_STEP)
            asked[size] = asked.get(size, 0) + count
    most_asked = sorted(asked, key=lambda size: (-asked[size], size))[:SIZES_MAX]
    return np.array(_values(tuple((size, asked[size]) for size in sorted(most_asked))))


@lru_cache(maxsize=KEPT)
def _values(demand: tuple[tuple[int, int], ...]) -> tuple[float, ...]:
    """The values for (size in steps, how many) in order of size."""
    if not demand:
        return (0.0,) * (STEPS + 1)
    sizes = [size for size, _ in demand]
    values, _ = _dearest(sizes, _prices(sizes, [count for _, count in demand]))
    # Prices of an unfinished program are too high by one factor (Farley, 1990).
    return tuple(round(GPU_MILLI * value / values[STEPS], 3) for value in values)


def _prices(sizes: Sequence[int], counts: Sequence[int]) -> list[float]:
    """Dual prices of the sizes: the simplex method on patterns, each made when it is needed.

    `inverse` is that of the basis, by pattern and size; `used` is how many GPUs have each pattern.
    It begins with the patterns of one size alone.
    """
    fit = [STEPS // size for size in sizes]
    inverse = [
        [float(row == column) / n for column in range(len(fit))] for row, n in enumerate(fit)
    ]
    used = [count / n for count, n in zip(counts, fit, strict=True)]
    for _ in range(ROUNDS_MAX):
        values, taken = _dearest(sizes, _sums(inverse))
        if values[STEPS] <= 1 + TOLERANCE:
            break
        _bring_in(inverse, used, _pattern(sizes, taken))
    return _sums(inverse)


def _sums(inverse: list[list[float]]) -> list[float]:
    """Prices: each pattern costs one GPU."""
    return [sum(column) for column in zip(*inverse, strict=True)]


def _bring_in(inverse: list[list[float]], used: list[float], pattern: Sequence[int]) -> None:
    """One step of the simplex method: `pattern` takes the place of the first that runs out."""
    instead = [sum(a * n for a, n in zip(row, pattern, strict=True)) for row in inverse]
    out = min(
        (row for row, rate in enumerate(instead) if rate > TOLERANCE),
        key=lambda row: (used[row] / instead[row], row),
    )
    share, pivot = used[out] / instead[out], [a / instead[out] for a in inverse[out]]
    for row, rate in enumerate(instead):
        inverse[row] = [a - rate * b for a, b in zip(inverse[row], pivot, strict=True)]
        used[row] -= rate * share
    inverse[out], used[out] = pivot, share


def _dearest(sizes: Sequence[int], prices: Sequence[float]) -> tuple[list[float], list[int]]:
    """By free steps: what the dearest shares that fit are worth, and one of them or `NOBODY`."""
    values, taken = [0.0], [NOBODY]
    for free in range(1, STEPS + 1):
        most, who = values[free - 1], NOBODY
        for number, size in enumerate(sizes):
            if size > free:
                break
            value = values[free - size] + prices[number]
            if value > most + TOLERANCE:
                most, who = value, number
        values.append(most)
        taken.append(who)
    return values, taken


def _pattern(sizes: Sequence[int], taken: Sequence[int]) -> list[int]:
    """How many of each size are in the dearest set for a whole GPU."""
    pattern, free = [0] * len(sizes), STEPS
    while free:
        who = taken[free]
        if who == NOBODY:
            free -= 1
        else:
            pattern[who] += 1
            free -= sizes[who]
    return pattern
