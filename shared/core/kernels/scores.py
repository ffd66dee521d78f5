"""The scores of core/market_scores.py for one pod and one condition, on whole numbers and tables.

The formulas are those of `score_nodes` and `score_gpus`, term by term, so that the last bit
agrees; a test compares them on every condition.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

from shared.core.cells import TIE
from shared.core.kernels.arrays import GPUS as POD_GPUS
from shared.core.kernels.arrays import POD_CPU, SHARE, Ints, Tables
from shared.core.kernels.indexes import (
    BITS,
    FREE_STEPS,
    LINE_FREE,
    LINE_KIND,
    LINE_REST,
    LINE_WORD,
    OF_GPUS,
)
from shared.core.kernels.jit import compiled
from shared.core.market_scores import (
    BIN_MILLI,
    CPU_BIN_MILLI,
    CPU_STEP_MILLI,
    DEFICIT_KEY,
    DEFICIT_MAX,
    FIRST_KEY,
    FIRST_MAX,
    KEPT_KEY,
    KEPT_MAX,
    LOST_BIN_MILLI,
    LOST_NONE_MILLI,
    OPEN_KEY,
    REST_MILLI,
    SHARED_CPU_STEP_MILLI,
    WITHOUT_GPU,
)
from shared.core.share_values import MILLI_STEP
from shared.core.units import GPU_MILLI
from shared.core.waste import CORES, GPUS, PART_MILLI, PARTS

FIRST: Final = FIRST_KEY // TIE
"""Scores here are those of the market, divided by `TIE`."""
KEPT: Final = KEPT_KEY // TIE
DEFICIT: Final = DEFICIT_KEY // TIE
OPEN: Final = OPEN_KEY // TIE
BARE: Final = WITHOUT_GPU // TIE
REFUSED: Final = -(1 << 30) + 1
SCORE_SHIFT: Final = 1 << 30
"""Makes scores positive, a refusal too."""
PRICE: Final = 0
BARE_KIND: Final = 1
"""Columns of `Tables.of_kind`."""


@compiled
def score_of(tables: Tables, pod: Ints, line: Ints, step: int) -> int:
    """Score of the cell at `step` of a line (row of `Index.lines`) where the pod may run."""
    step += line[LINE_WORD] * BITS
    if line[OF_GPUS]:
        return gpu_score(tables, pod, line[LINE_KIND], line[LINE_FREE], line[LINE_REST], step)
    return node_score(tables, pod, line[LINE_KIND], line[LINE_FREE], line[LINE_REST], step)


@compiled
def node_score(tables: Tables, pod: Ints, kind: int, free: int, parts: int, step: int) -> int:
    """`market_scores.score_nodes` of one condition on a kind where the pod may run."""
    free, parts = min(free, GPUS), min(parts, PARTS)
    opened = pod[POD_GPUS] if pod[POD_GPUS] else int(pod[SHARE] > 0)
    if free < opened or (step + 1) * CPU_STEP_MILLI <= pod[POD_CPU]:
        return REFUSED
    before, after = _cores(step, pod[POD_CPU])
    left = max(free - opened, 0)
    fragments = tables.nodes[free, parts, before] - tables.nodes[left, parts, after]
    if pod[SHARE]:
        fragments -= tables.gpu[(GPU_MILLI - pod[SHARE]) // MILLI_STEP, after]
    scarce = tables.scarce[kind, left, after] - tables.scarce[kind, free, before]
    scarce -= _bound_milli(tables, kind, pod)
    free_milli = free * GPU_MILLI + parts * PART_MILLI
    score = _binned(fragments, scarce, _deficit(tables, free_milli, before, after, pod))
    return score + BARE if tables.of_kind[kind, BARE_KIND] else score


@compiled
def gpu_score(tables: Tables, pod: Ints, kind: int, free: int, rest: int, step: int) -> int:
    """`market_scores.score_gpus` of one condition on a kind where the pod may run."""
    step, rest = step * (SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI), rest * (REST_MILLI // GPU_MILLI)
    if (free + 1) * MILLI_STEP <= pod[SHARE]:
        return REFUSED
    if step * CPU_STEP_MILLI + SHARED_CPU_STEP_MILLI <= pod[POD_CPU]:
        return REFUSED
    before, after = _cores(step, pod[POD_CPU])
    left = max(free + (-pod[SHARE]) // MILLI_STEP, 0)
    whole = FREE_STEPS - 1
    fragments = tables.gpu[free, before] - tables.gpu[left, after]
    fragments += rest * (tables.gpu[whole, before] - tables.gpu[whole, after])
    scarce = -_bound_milli(tables, kind, pod)
    free_milli = rest * GPU_MILLI + free * MILLI_STEP
    score = _binned(fragments, scarce, _deficit(tables, free_milli, before, after, pod))
    score += KEPT * _kept(tables, free, pod)
    return score + OPEN if tables.rests[left] > 0 else score


@compiled
def _cores(step: int, cpu_milli: int) -> tuple[int, int]:
    before_milli = max(step * CPU_STEP_MILLI, cpu_milli)
    after_milli = before_milli - cpu_milli
    return min(before_milli // 1000, CORES - 1), min(after_milli // 1000, CORES - 1)


@compiled
def _bound_milli(tables: Tables, kind: int, pod: Ints) -> float:
    price: float = tables.of_kind[kind, PRICE] * (pod[POD_GPUS] + pod[SHARE] / GPU_MILLI)
    return price


@compiled
def _deficit(tables: Tables, free_milli: int, before: int, after: int, pod: Ints) -> float:
    per_milli = tables.cpu_per_gpu_milli[0] / GPU_MILLI
    left_milli = free_milli - (pod[POD_GPUS] * GPU_MILLI + pod[SHARE])
    decrease: float = max(0.0, free_milli * per_milli - before * 1000)
    decrease -= max(0.0, left_milli * per_milli - after * 1000)
    return decrease


@compiled
def _binned(fragments: float, scarce: float, deficit: float) -> int:
    first = floor(fragments / BIN_MILLI) + ceil(scarce / BIN_MILLI)
    third = floor(deficit / CPU_BIN_MILLI)
    first = min(max(first, -FIRST_MAX), FIRST_MAX)
    return first * FIRST + min(max(third, -DEFICIT_MAX), DEFICIT_MAX) * DEFICIT


@compiled
def _kept(tables: Tables, free: int, pod: Ints) -> int:
    size = -(-pod[SHARE] // MILLI_STEP)
    lost = tables.rests[free] - tables.rests[max(free - size, 0)] - tables.rests[size]
    steps: int = min(max(ceil((lost - LOST_NONE_MILLI) / LOST_BIN_MILLI), 0), KEPT_MAX)
    return KEPT_MAX - steps
