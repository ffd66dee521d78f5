"""MIG placement policies of others on one list of GPUs, each a table over the 256 busy masks.

Best fit, worst fit and first fit need no source. `mfi` is our stand-in for Minimum Fragmentation
Increment (arXiv 2511.18906), whose metric we know from its abstract only: the sum, over profiles
that fit by count of slices, of size times the number of starts that are blocked. `fgd` is the
gradient of Weng et al. (ATC'23): free slices that a profile cannot reach, weighted by the shares
of the profiles, which it is told; used GPUs come before idle ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Score = Callable[[int, int, int], tuple[float, int]]
"""(busy mask, profile, start) -> (preference between GPUs, between starts); smaller is better."""

SLICES: Final = 8
SIZES: Final = (1, 2, 2, 4, 4, 8)
"""Memory slices of 1g, 1g with double memory, 2g, 3g, 4g, 7g on boards with eight slots."""
STARTS: Final = ((0, 1, 2, 3, 4, 5, 6), (0, 2, 4, 6), (0, 2, 4), (0, 4), (0,), (0,))
MASKS: Final = range(1 << SLICES)
IDLE: Final = 1_000.0
"""Added where a policy opens an idle GPU only if no used one will do."""


def slices_of(profile: int, start: int) -> int:
    """The mask of an instance."""
    return ((1 << SIZES[profile]) - 1) << start


def legal_starts(mask: int, profile: int) -> list[int]:
    """Where an instance may begin on a GPU with `mask` busy."""
    return [start for start in STARTS[profile] if not slices_of(profile, start) & mask]


class Instance(NamedTuple):
    """What was given."""

    gpu: int
    mask: int


class TablePolicy:
    """The GPU of the least preference, the lowest index of equals; there, the best start."""

    def __init__(self, score: Score, gpus: int, *, round_robin: bool = False) -> None:
        self._masks: Ints = np.zeros(gpus, dtype=np.int64)
        self._preference = np.full((len(SIZES), len(MASKS)), np.inf)
        self._start: Ints = np.zeros((len(SIZES), len(MASKS)), dtype=np.int64)
        self._round_robin = round_robin
        self._after = 0
        for profile in range(len(SIZES)):
            for mask in MASKS:
                for start in legal_starts(mask, profile):
                    self._consider(profile, mask, start, score)

    def _consider(self, profile: int, mask: int, start: int, score: Score) -> None:
        known = (self._preference[profile, mask], self._order(mask, profile, score))
        found = score(mask, profile, start)
        if not np.isfinite(known[0]) or found < known:
            self._preference[profile, mask], self._start[profile, mask] = found[0], start

    def _order(self, mask: int, profile: int, score: Score) -> int:
        return score(mask, profile, int(self._start[profile, mask]))[1]

    def place(self, profile: int) -> Instance | None:
        """Take the best position; None if there is none."""
        preference = self._preference[profile][self._masks]
        if self._round_robin:
            preference = np.roll(preference, -self._after)
        best = int(preference.argmin())
        if not np.isfinite(preference[best]):
            return None
        gpu = (best + self._after) % len(self._masks) if self._round_robin else best
        self._after = gpu + 1
        mask = slices_of(profile, int(self._start[profile, self._masks[gpu]]))
        self._masks[gpu] |= mask
        return Instance(gpu, mask)

    def release(self, instance: Instance) -> None:
        """Give it back."""
        self._masks[instance.gpu] &= ~instance.mask


# ── scores ───────────────────────────────────────────────────────────────────


def _free(mask: int) -> int:
    return SLICES - mask.bit_count()


def first_fit(mask: int, profile: int, start: int) -> tuple[float, int]:
    """The first GPU with room, the lowest start."""
    del mask, profile
    return 0.0, start


def best_fit_low(mask: int, profile: int, start: int) -> tuple[float, int]:
    """The fewest free slices, then the lowest start on any such GPU."""
    del profile
    return _free(mask) * SLICES + start, 0


def best_fit_high(mask: int, profile: int, start: int) -> tuple[float, int]:
    """The fewest free slices, then the highest start on any such GPU."""
    del profile
    return _free(mask) * SLICES - start, 0


def worst_fit(mask: int, profile: int, start: int) -> tuple[float, int]:
    """The most free slices, the lowest start."""
    del profile
    return -_free(mask) * SLICES + start, 0


def minimum_fragmentation(mask: int, profile: int, start: int) -> tuple[float, int]:
    """The least growth of size times blocked starts, over profiles that fit by count."""
    after = mask | slices_of(profile, start)
    return _blocked(after) - _blocked(mask), start


def _blocked(mask: int) -> float:
    return sum(
        size * (len(STARTS[profile]) - len(legal_starts(mask, profile)))
        for profile, size in enumerate(SIZES)
        if size <= _free(mask)
    )


def fragmentation_gradient(shares: Sequence[float]) -> Score:
    """FGD for profiles asked for in `shares`."""
    fragmented = [_fragmented(mask, shares) for mask in MASKS]

    def score(mask: int, profile: int, start: int) -> tuple[float, int]:
        growth = fragmented[mask | slices_of(profile, start)] - fragmented[mask]
        return round(growth, 6) + (0.0 if mask else IDLE), start

    return score


def _fragmented(mask: int, shares: Sequence[float]) -> float:
    """Free slices that the next instance cannot reach, in expectation."""
    wasted = 0.0
    for profile, share in enumerate(shares):
        reached = 0
        for start in legal_starts(mask, profile):
            reached |= slices_of(profile, start)
        wasted += share * (_free(mask) - reached.bit_count())
    return wasted
