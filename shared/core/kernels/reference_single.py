"""One pod at its best place, by the reference: the rule of core/market.py over all nodes."""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.cells import REFUSED
from shared.core.demand import PodDemand
from shared.core.fill_order import (
    BLOCK_BITS,
    COUNT_BITS,
    FREE_BITS,
    FREE_MAX,
    RACKS_LAST,
    REMNANT_NODES,
    WHOLE_LAST,
)
from shared.core.kernels.arrays import (
    BLOCK_ORDER,
    BOARD,
    CPU,
    FREE,
    GPU_MEMORY,
    KIND,
    MEMORY,
    MILLI,
    NONE,
    OWNER,
    PATH,
    POD_CPU,
    POD_MEMORY,
    SHARE,
    SHARE_MEMORY,
    USABLE,
    WHOLE,
    WORKS,
    Bools,
    Ints,
    State,
)
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.indexes import whole_nodes
from shared.core.market_scores import (
    CPU_STEP_MILLI,
    REST_MILLI,
    SHARED_CPU_STEP_MILLI,
    score_gpus,
    score_nodes,
)
from shared.core.share_values import MILLI_STEP
from shared.core.topology import WHOLE_MAX
from shared.core.units import GPU_MILLI
from shared.core.waste import PART_MILLI

KEY: Final = np.array([1 << 36, 1 << 24, 1 << 12, 1], dtype=np.int64)
"""Makes one number of a condition."""


def best_node(fleet: Fleet, shape: int) -> tuple[int, int]:
    """(node, score)."""
    state = fleet.state
    nodes = state.nodes
    works = (nodes[:, WORKS] > 0) & (nodes[:, CPU] >= 0)
    parts_milli = _free_parts_milli(state).sum(axis=1)
    conditions = np.column_stack(
        (
            nodes[:, KIND],
            bits_of(nodes[:, FREE]),
            parts_milli // PART_MILLI,
            nodes[:, CPU] // CPU_STEP_MILLI,
        )
    )
    numbers = _in_order(state, np.flatnonzero(works))
    scores = _scores(fleet, shape, conditions[numbers], of_gpus=False)
    fits = _has_room(state, shape, numbers)
    at = _first_of_best(conditions[numbers], scores, fits)
    return (NONE, REFUSED) if at == NONE else (int(numbers[at]), int(scores[at]))


def best_gpu(fleet: Fleet, shape: int, team: int) -> tuple[int, int, int]:
    """(node, GPU, score) among those that the team shares."""
    state = fleet.state
    nodes, pod = state.nodes, state.shapes[shape]
    parts_milli = _free_parts_milli(state)
    works = (nodes[:, WORKS] > 0) & (nodes[:, CPU] >= 0)
    shared = works[:, None] & (parts_milli > 0) & (state.gpus[:, :, OWNER] == team)
    numbers, gpus = np.nonzero(shared)
    order = np.argsort(_fill_keys(state)[numbers], kind="stable")
    numbers, gpus = numbers[order], gpus[order]
    free_milli = parts_milli[numbers, gpus]
    all_milli = bits_of(nodes[numbers, FREE]) * GPU_MILLI
    all_milli = all_milli + parts_milli[numbers].sum(axis=1)
    conditions = np.column_stack(
        (
            nodes[numbers, KIND],
            free_milli // MILLI_STEP,
            (all_milli - free_milli) // REST_MILLI,
            nodes[numbers, CPU] // SHARED_CPU_STEP_MILLI,
        )
    )
    scores = _scores(fleet, shape, conditions, of_gpus=True)
    fits = _has_room(state, shape, numbers) & (free_milli >= pod[SHARE])
    fits &= state.gpus[numbers, gpus, GPU_MEMORY] >= pod[SHARE_MEMORY]
    at = _first_of_best(conditions, scores, fits)
    if at == NONE:
        return NONE, NONE, REFUSED
    return int(numbers[at]), int(gpus[at]), int(scores[at])


def _in_order(state: State, numbers: Ints) -> Ints:
    """Nodes in the order in which single pods take them, if all else is equal."""
    order: Ints = numbers[np.argsort(_fill_keys(state)[numbers], kind="stable")]
    return order


def _fill_keys(state: State) -> Ints:
    """(n,) what goes before the rank in core/fill_order.py; `NONE` outside the fabric."""
    nodes = state.nodes
    # The last row is that of no domain.
    counts = np.append(np.minimum(whole_nodes(state), WHOLE_MAX), 0)
    tight, wide = counts[nodes[:, PATH]], counts[nodes[:, PATH + 1]]
    tight, wide = np.where(nodes[:, PATH] == NONE, (wide, 0 * wide), (tight, wide))
    fewest, block = tight << COUNT_BITS | wide, nodes[:, BLOCK_ORDER]
    free = np.minimum(bits_of(nodes[:, FREE]), FREE_MAX)
    broken = (block << FREE_BITS | free) << 2 * COUNT_BITS | fewest
    racks = RACKS_LAST | block << 2 * COUNT_BITS | fewest
    whole = WHOLE_LAST | np.where(tight <= REMNANT_NODES, fewest << BLOCK_BITS | block, racks)
    keys = np.where(nodes[:, FREE] == nodes[:, WHOLE], whole, broken)
    return np.where(block == NONE, NONE, keys)


def _free_parts_milli(state: State) -> Ints:
    """(n, G) what is free of each GPU that is shared."""
    usable = state.nodes[:, USABLE, None] >> np.arange(state.gpus.shape[1]) & 1
    free_milli = GPU_MILLI - state.gpus[:, :, MILLI]
    return np.where((state.gpus[:, :, OWNER] != NONE) & (usable > 0), free_milli, 0)


def _scores(fleet: Fleet, shape: int, conditions: Ints, *, of_gpus: bool) -> Ints:
    rule = score_gpus if of_gpus else score_nodes
    assert fleet.waste is not None
    allowed, demand = fleet.state.allowed[shape], _demand(fleet.state, shape)
    return rule(fleet.waste, allowed, conditions, demand)


def _demand(state: State, shape: int) -> PodDemand:
    gpus, milli, share_memory_mib, cpu_milli, memory_mib = map(
        int, state.shapes[shape, : POD_MEMORY + 1]
    )
    return PodDemand(
        pod_set="",
        count=1,
        first_rank=0,
        gpus=gpus,
        milli=milli,
        share_memory_mib=share_memory_mib,
        profile="",
        instances=0,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )


def _has_room(state: State, shape: int, numbers: Ints) -> Bools:
    nodes, pod = state.nodes[numbers], state.shapes[shape]
    enough: Bools = (nodes[:, CPU] >= pod[POD_CPU]) & (nodes[:, MEMORY] >= pod[POD_MEMORY])
    return enough


def _first_of_best(conditions: Ints, scores: Ints, fits: Bools) -> int:
    """Place in the arrays of the best that fits; between conditions, the least head decides."""
    fits = fits & (scores > REFUSED)
    if not fits.any():
        return NONE
    best = np.flatnonzero(fits & (scores == scores[fits].max()))
    keys = conditions @ KEY
    heads = {key: int((keys == key).argmax()) for key in np.unique(keys[best]).tolist()}
    key = min(heads, key=lambda each: heads[each])
    return int(best[keys[best] == key][0])


def pick(state: State, node: int, gpus: int) -> int:
    """Mask of `gpus` free GPUs of a node that has them, by the table of its board."""
    return int(state.picks[state.nodes[node, BOARD], state.nodes[node, FREE], gpus])


def bits_of(masks: Ints) -> Ints:
    """How many bits are set in each."""
    return np.bitwise_count(masks).astype(np.int64)
