"""What the free part of a shared GPU is worth to the shares that are asked for.

Shares come in few sizes, so some rests are used up by others (320 beside 650) and some by none
(190 beside 810). A share is worth its dual price in the linear program of cutting stock: GPUs are
the rolls, the shares of the learned mix the pieces (Gilmore and Gomory, 1961). A rest is worth the
dearest shares that fit into it together. So a share that is placed loses what the rest was worth
beyond the share and the rest that is left: nothing, where an optimal packing combines them.

Sums are made in a fixed order: the same mix gives the same values on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.model.units import GPU_MILLI
from shared.core.scoring.mix import PodClass

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MILLI_STEP: Final = 10
"""Step in which the free part of one shared GPU is told apart."""
STEPS: Final = GPU_MILLI // MILLI_STEP
SIZES_MAX: Final = 24
"""Sizes of shares that are priced, the most asked for first; others are worth what they hold."""
ROUNDS_MAX: Final = 64
"""Patterns that may be looked for; one of 600 random mixes needs more than 43. 11 ms at most."""
TOLERANCE: Final = 1e-7
KEPT: Final = 16
"""Mixes with values that are kept: node classes come and go more often than the mix changes."""
NOBODY: Final = -1
"""No share is taken at this point; the rest goes on one step smaller."""


def rest_values(counts: Mapping[PodClass, int]) -> Floats:
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
    values, _ = _dearest(sizes, _prices(sizes, [count for _, count in demand]).tolist())
    # Prices of an unfinished program are too high by one factor (Farley, 1990).
    return tuple(round(GPU_MILLI * value / values[STEPS], 3) for value in values)


def _prices(sizes: Sequence[int], counts: Sequence[int]) -> Floats:
    """Dual prices of the sizes: the simplex method on patterns, each made when it is needed.

    `inverse` is that of the basis, by pattern and size; `used` is how many GPUs have each pattern.
    It begins with the patterns of one size alone, and those of first fit decreasing after them:
    these are near the optimum, and come without a search.
    """
    fit = STEPS // np.array(sizes)
    inverse, used = np.diag(1 / fit), np.array(counts) / fit
    for pattern in _first_fit_decreasing(sizes, counts):
        if _sum(_sum(inverse) * pattern) > 1 + TOLERANCE:
            _bring_in(inverse, used, pattern)
    for _ in range(ROUNDS_MAX):
        values, taken = _dearest(sizes, _sum(inverse).tolist())
        if values[STEPS] <= 1 + TOLERANCE:
            break
        _bring_in(inverse, used, _pattern(sizes, taken))
    return _sum(inverse)


def _sum(rows: Floats) -> Floats:
    """Over the first axis, one after the other: `numpy.sum` adds in an order of its own."""
    total: Floats = np.cumsum(rows, axis=0)[-1]
    return total


def _first_fit_decreasing(sizes: Sequence[int], counts: Sequence[int]) -> Iterator[Ints]:
    """How the largest go first and smaller ones beside them, each pattern as often as it can."""
    left = list(counts)
    while any(left):
        pattern, free = [0] * len(sizes), STEPS
        for number in reversed(range(len(sizes))):
            pattern[number] = min(free // sizes[number], left[number])
            free -= pattern[number] * sizes[number]
        often = min(count // n for count, n in zip(left, pattern, strict=True) if n)
        left = [count - often * n for count, n in zip(left, pattern, strict=True)]
        yield np.array(pattern)


def _bring_in(inverse: Floats, used: Floats, pattern: Ints) -> None:
    """One step of the simplex method: `pattern` takes the place of the first that runs out."""
    rates = _sum((inverse * pattern).T)
    falling = np.flatnonzero(rates > TOLERANCE)
    out = falling[np.argmin(used[falling] / rates[falling])]
    share, pivot = used[out] / rates[out], inverse[out] / rates[out]
    inverse -= rates[:, None] * pivot
    used -= rates * share
    inverse[out], used[out] = pivot, share


def _dearest(sizes: Sequence[int], prices: Sequence[float]) -> tuple[list[float], list[int]]:
    """By free steps: what the dearest shares that fit are worth, and one of them or `NOBODY`."""
    values, taken, dearer = [0.0], [NOBODY], _dearer(sizes, prices)
    for free in range(1, STEPS + 1):
        most, who = values[free - 1], NOBODY
        for number, size, price in dearer:
            if size > free:
                break
            if values[free - size] + price > most + TOLERANCE:
                most, who = values[free - size] + price, number
        values.append(most)
        taken.append(who)
    return values, taken


def _dearer(sizes: Sequence[int], prices: Sequence[float]) -> list[tuple[int, int, float]]:
    """(number, size, price) of the sizes that are dearer than all smaller ones."""
    dearer, most = [], 0.0
    for number, (size, price) in enumerate(zip(sizes, prices, strict=True)):
        if price > most + TOLERANCE:
            dearer.append((number, size, price))
            most = price
    return dearer


def _pattern(sizes: Sequence[int], taken: Sequence[int]) -> Ints:
    """How many of each size are in the dearest set for a whole GPU."""
    pattern, free = [0] * len(sizes), STEPS
    while free:
        who = taken[free]
        if who == NOBODY:
            free -= 1
        else:
            pattern[who] += 1
            free -= sizes[who]
    return np.array(pattern)
