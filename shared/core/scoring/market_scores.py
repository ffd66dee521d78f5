"""How good it is to put one pod into each condition of a node or shared GPU: arrays of scores.

Bins and keys: placement.md 3.2 (rule X); the amounts come from the tables of
core/scoring/waste.py. Where these scores stand in the choice of a node is told by
core/scoring/market.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.cells import REFUSED, TIE, Ints
from shared.core.scoring.share_values import MILLI_STEP
from shared.core.scoring.waste import CORES, GPUS, PART_MILLI, PARTS, Floats, Waste

Bools = NDArray[np.bool_]

BIN_MILLI: Final = 500
"""Differences of useless GPU below this are noise (placement.md 3.2: 100 to 400 are alike)."""
CPU_BIN_MILLI: Final = 2_000
CPU_STEP_MILLI: Final = 2_000
"""Step in which cells tell free CPU apart."""
SHARED_CPU_STEP_MILLI: Final = 4_000
"""The same for shared GPUs, of which there are many conditions."""
REST_MILLI: Final = 2_000
"""Step in which cells of shared GPUs tell the free GPU beside it apart."""
LOST_BIN_MILLI: Final = 100
"""Step in which lost values of rests are told apart; 20 to 100 are alike."""
LOST_NONE_MILLI: Final = 1
"""Less is rounding."""
KEPT_MAX: Final = 3
"""What a shared GPU gets on which no value is lost; one that is opened gets nothing."""
FIRST_KEY: Final = TIE << 13
FIRST_MAX: Final = 1000
KEPT_KEY: Final = TIE << 10
DEFICIT_KEY: Final = TIE << 1
DEFICIT_MAX: Final = 255
OPEN_KEY: Final = TIE
"""Bonus of a shared GPU whose rest is still worth something to others."""
WITHOUT_GPU: Final = FIRST_KEY >> 1
"""Bonus, below one bin, of nodes that have no GPU at all: CPU work goes there first."""


def score_nodes(waste: Waste, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
    """Scores of nodes, for whole GPUs, CPU alone, or a share that opens a GPU."""
    number, free, parts, step = conditions.T
    free, parts = np.minimum(free, GPUS), np.minimum(parts, PARTS)
    cores, cores_after = _cores(step, demand)
    opened = demand.gpus or int(demand.milli > 0)
    after = np.maximum(free - opened, 0)
    fragments = waste.nodes[free, parts, cores] - waste.nodes[after, parts, cores_after]
    if demand.milli:
        fragments -= waste.gpu[(GPU_MILLI - demand.milli) // MILLI_STEP, cores_after]
    product = waste.product[number]
    scarce = waste.scarce[product, after, cores_after] - waste.scarce[product, free, cores]
    scarce -= _bound_milli(waste, product, demand)
    deficit = _deficit(waste, free * GPU_MILLI + parts * PART_MILLI, (cores, cores_after), demand)
    scores = _binned(fragments, scarce, deficit) + WITHOUT_GPU * waste.bare[number]
    fits = allowed[number] & (free >= opened) & _has_cpu(step, demand)
    return np.where(fits, scores, REFUSED)


def score_gpus(waste: Waste, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
    """Scores of GPUs that are shared already."""
    number, free, rest, step = conditions.T
    step, rest = step * (SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI), rest * (REST_MILLI // GPU_MILLI)
    cores, cores_after = _cores(step, demand)
    after = np.maximum(free - -(-demand.milli // MILLI_STEP), 0)
    fragments = waste.gpu[free, cores] - waste.gpu[after, cores_after]
    fragments += rest * (waste.gpu[-1, cores] - waste.gpu[-1, cores_after])
    scarce = -_bound_milli(waste, waste.product[number], demand)
    deficit = _deficit(waste, rest * GPU_MILLI + free * MILLI_STEP, (cores, cores_after), demand)
    scores = _binned(fragments, scarce, deficit) + KEPT_KEY * _kept(waste, free, demand)
    scores += OPEN_KEY * (waste.rests[after] > 0)
    fits = allowed[number] & ((free + 1) * MILLI_STEP > demand.milli)
    fits &= (step + SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI) * CPU_STEP_MILLI > demand.cpu_milli
    return np.where(fits, scores, REFUSED)


def _binned(fragments: Floats, scarce: Floats, deficit: Floats) -> Ints:
    """Decreases of the three amounts as one number, the first two in the higher digits.

    Prices are rounded towards zero: what is not scarce must not disturb the rest.
    """
    first = np.floor(fragments / BIN_MILLI) + np.ceil(scarce / BIN_MILLI)
    first = np.clip(first, -FIRST_MAX, FIRST_MAX).astype(np.int64)
    third = np.floor(deficit / CPU_BIN_MILLI)
    third = np.clip(third, -DEFICIT_MAX, DEFICIT_MAX).astype(np.int64)
    scores: Ints = first * FIRST_KEY + third * DEFICIT_KEY
    return scores


def _kept(waste: Waste, free: Ints, demand: PodDemand) -> Ints:
    """`KEPT_MAX`, less for what the free part of a GPU loses beyond what the share is worth."""
    size = -(-demand.milli // MILLI_STEP)
    lost = waste.rests[free] - waste.rests[np.maximum(free - size, 0)] - waste.rests[size]
    steps = np.ceil((lost - LOST_NONE_MILLI) / LOST_BIN_MILLI)
    kept: Ints = KEPT_MAX - np.clip(steps, 0, KEPT_MAX).astype(np.int64)
    return kept


def _bound_milli(waste: Waste, product: Ints, demand: PodDemand) -> Floats:
    """The price of the GPU itself, where pods are bound to its product."""
    price: Floats = waste.price_per_gpu[product] * (demand.gpus + demand.milli / GPU_MILLI)
    return price


def _deficit(
    waste: Waste, free_milli: Ints, cores: tuple[Ints, Ints], demand: PodDemand
) -> Floats:
    """By how much the CPU that is missing beside free GPUs decreases."""
    per_milli = waste.cpu_per_gpu_milli / GPU_MILLI
    before = np.maximum(0, free_milli * per_milli - cores[0] * 1000)
    left_milli = free_milli - (demand.gpus * GPU_MILLI + demand.milli)
    decrease: Floats = before - np.maximum(0, left_milli * per_milli - cores[1] * 1000)
    return decrease


def _cores(step: Ints, demand: PodDemand) -> tuple[Ints, Ints]:
    """Whole cores before and after; a node that has just enough is taken to have it."""
    before_milli = np.maximum(step * CPU_STEP_MILLI, demand.cpu_milli)
    after_milli = before_milli - demand.cpu_milli
    return np.minimum(before_milli // 1000, CORES - 1), np.minimum(after_milli // 1000, CORES - 1)


def _has_cpu(step: Ints, demand: PodDemand) -> Bools:
    enough: Bools = (step + 1) * CPU_STEP_MILLI > demand.cpu_milli
    return enough
