"""Which GPUs of a node to give away: a look-up table for each type of machine, made once.

A machine is known by the link of each pair of its GPUs and by their NUMA domains. Links are a
short string, a character for each pair, the upper triangle row by row in order of GPU index; one
character alone says that all pairs are equal (NVSwitch):

    1-9, a-z  that many NVLinks bonded (base 36)      H  through one host bridge (PHB)
    I         one PCIe switch (PIX)                   N  one NUMA domain (NODE)
    P         several PCIe switches (PXB)             S  across sockets (SYS)

Of all subsets of the free GPUs the best is
1. the one with the best links in sum, priced as NVIDIA's go-gpuallocator does (its device plugin's
   "best effort" policy): NVLink 100 each, PIX 50, PXB 40, PHB 30, NODE 20, SYS 10;
2. of these, the one with most pairs inside one NUMA domain;
3. the one that leaves the best subsets of each size for later;
4. the one of the lowest indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

GPUS_MAX: Final = 16
"""Machines with more GPUs have no table: all subsets are looked at."""
TYPES_MAX: Final = 256
"""Types of machines with tables that are kept."""
KNOWN_MAX: Final = 1 << 16
"""Answers that one table keeps; all of them for up to 11 GPUs."""
PCIE: Final = {"I": 50, "P": 40, "H": 30, "N": 20, "S": 10}
NVLINK: Final = 100
SAME_NUMA: Final = 1
LINK: Final = 1000
"""Value of one unit of link: more than all pairs of a machine can gain by NUMA domain."""


class LinkTable:
    """All subsets of the GPUs of one type of machine, as bit masks."""

    def __init__(self, links: str, numas: Sequence[int]) -> None:
        """`numas` by GPU index; `links` empty or unreadable: by NUMA domain alone."""
        self._pairs = _pair_values(links, numas)
        self._quality = _subset_sums(self._pairs)
        """(masks,) value of all pairs in a subset."""
        self._size = _subset_sizes(len(numas))
        self._left: Ints | None = None
        self._aligned = np.zeros(len(self._quality), dtype=bool)
        for domain in numa_masks(numas):
            masks = np.arange(len(self._quality))
            self._aligned |= (masks & ~domain) == 0
        self._best: dict[tuple[int, int, bool], int] = {}

    def best(self, free: int, count: int, *, aligned: bool = False) -> int:
        """The mask of the best `count` GPUs out of `free`; 0 if there is none.

        `aligned`: all in one NUMA domain. O(subsets) once for each argument, then O(1).
        """
        key = (free, count, aligned)
        found = self._best.get(key)
        if found is None:
            if len(self._best) >= KNOWN_MAX:
                self._best.clear()
            found = self._best[key] = self._choose(free, count, aligned=aligned)
        return found

    def _choose(self, free: int, count: int, *, aligned: bool) -> int:
        fitting = self._size == count
        fitting[free + 1 :] = False
        if aligned:
            fitting &= self._aligned
        masks = np.flatnonzero(fitting)
        masks = masks[(masks & ~free) == 0]
        if not len(masks):
            return 0
        quality = self._quality[masks]
        masks = masks[quality == quality.max()]
        if len(masks) > 1:
            left = self._left_values()[free ^ masks]
            masks = masks[left == left.max()]
        return int(masks[0])

    def _left_values(self) -> Ints:
        """(masks,) what a set of free GPUs still offers: its best subset of each size, in sum."""
        if self._left is None:
            left = np.zeros_like(self._quality)
            gpus = len(self._quality).bit_length() - 1
            for count in range(2, gpus + 1):
                best = np.where(self._size == count, self._quality, 0)
                for gpu in range(gpus):
                    halves = best.reshape(-1, 2, 1 << gpu)
                    np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
                left += best // (count * (count - 1) // 2)
            self._left = left
        return self._left


@lru_cache(maxsize=TYPES_MAX)
def link_table(links: str, numas: tuple[int, ...]) -> LinkTable | None:
    """The table of a type of machine; None if it has too many GPUs for one."""
    return LinkTable(links, numas) if len(numas) <= GPUS_MAX else None


def numa_masks(numas: Sequence[int]) -> tuple[int, ...]:
    """The GPUs of each NUMA domain as a mask, in order of domain."""
    masks: dict[int, int] = {}
    for gpu, numa in enumerate(numas):
        masks[numa] = masks.get(numa, 0) | 1 << gpu
    return tuple(masks[numa] for numa in sorted(masks))


def link_value(link: str) -> int | None:
    """The price of one link; None for a character that names none."""
    if link in PCIE:
        return PCIE[link]
    if link.isascii() and link.isalnum() and not link.isupper() and link != "0":
        return NVLINK * int(link, 36)
    return None


def _pair_values(links: str, numas: Sequence[int]) -> Ints:
    """(gpus, gpus) value of each pair."""
    gpus = len(numas)
    pairs = gpus * (gpus - 1) // 2
    values = [link_value(link) for link in (links * pairs if len(links) == 1 else links)]
    known = len(values) == pairs and None not in values
    table: Ints = np.zeros((gpus, gpus), dtype=np.int64)
    at = 0
    for one in range(gpus):
        for other in range(one + 1, gpus):
            same = numas[one] == numas[other]
            link = values[at] if known else PCIE["N" if same else "S"]
            table[one, other] = table[other, one] = LINK * (link or 0) + SAME_NUMA * same
            at += 1
    return table


def _subset_sums(pairs: Ints) -> Ints:
    """(masks,) sum of `pairs` inside each subset; each GPU doubles the table."""
    sums: Ints = np.zeros(1, dtype=np.int64)
    for gpu in range(len(pairs)):
        to_gpu: Ints = np.zeros(1, dtype=np.int64)
        for other in range(gpu):
            to_gpu = np.concatenate((to_gpu, to_gpu + pairs[other, gpu]))
        sums = np.concatenate((sums, sums + to_gpu))
    return sums


def _subset_sizes(gpus: int) -> Ints:
    sizes: Ints = np.zeros(1, dtype=np.int64)
    for _ in range(gpus):
        sizes = np.concatenate((sizes, sizes + 1))
    return sizes
