"""One pod is held or given back, and all of that can be undone."""

from __future__ import annotations

from typing import Final

from shared.core.kernels.arrays import (
    CPU,
    FREE,
    GPU_MEMORY,
    HELD_COLUMNS,
    HELD_GPUS,
    HELD_NODE,
    HELD_SHAPE,
    HELD_TEAM,
    MEMORY,
    MILLI,
    NONE,
    OWNER,
    POD_CPU,
    POD_MEMORY,
    SHARE,
    SHARE_MEMORY,
    USABLE,
    Ints,
    State,
)
from shared.core.kernels.filling import count_whole, is_whole
from shared.core.kernels.follow import note_change
from shared.core.kernels.indexes import LOG_ROWS, SIGN, Index
from shared.core.kernels.jit import compiled
from shared.core.units import GPU_MILLI

HOLD: Final = 1
GIVE_BACK: Final = -1


@compiled
def hold(
    state: State, index: Index, slot: int, node: int, gpus: int, shape: int, team: int
) -> None:
    """Place a pod of `shape` on `node` and the GPUs of the mask, in an empty slot."""
    held = state.held[slot]
    held[HELD_NODE], held[HELD_GPUS], held[HELD_SHAPE], held[HELD_TEAM] = node, gpus, shape, team
    _note(index, HOLD, slot, held)
    _charge(state, index, held, HOLD)


@compiled
def give_back(state: State, index: Index, slot: int) -> None:
    """Empty a slot; nothing if it is empty."""
    held = state.held[slot]
    if held[HELD_NODE] != NONE:
        _note(index, GIVE_BACK, slot, held)
        _charge(state, index, held, GIVE_BACK)
        held[HELD_NODE] = NONE


@compiled
def undo(state: State, index: Index, mark: int) -> None:
    """Take back what the log has from row `mark` on, the latest first."""
    while index.sizes[LOG_ROWS] > mark:
        index.sizes[LOG_ROWS] -= 1
        row = index.log[index.sizes[LOG_ROWS]]
        held = state.held[row[SIGN + 1]]
        for each in range(HELD_COLUMNS):
            held[each] = row[SIGN + 2 + each]
        _charge(state, index, held, -row[SIGN])
        if row[SIGN] == HOLD:
            held[HELD_NODE] = NONE


@compiled
def _note(index: Index, sign: int, slot: int, held: Ints) -> None:
    row = index.log[index.sizes[LOG_ROWS]]
    row[SIGN], row[SIGN + 1] = sign, slot
    for each in range(HELD_COLUMNS):
        row[SIGN + 2 + each] = held[each]
    index.sizes[LOG_ROWS] += 1


@compiled
def _charge(state: State, index: Index, held: Ints, sign: int) -> None:
    node = held[HELD_NODE]
    was_whole = is_whole(state, node)
    pod, row = state.shapes[held[HELD_SHAPE]], state.nodes[node]
    row[CPU] -= sign * pod[POD_CPU]
    row[MEMORY] -= sign * pod[POD_MEMORY]
    for gpu in range(state.gpus.shape[1]):
        if held[HELD_GPUS] >> gpu & 1:
            use = state.gpus[node, gpu]
            use[MILLI] += sign * (pod[SHARE] if pod[SHARE] else GPU_MILLI)
            use[GPU_MEMORY] -= sign * pod[SHARE_MEMORY]
            use[OWNER] = held[HELD_TEAM] if pod[SHARE] and use[MILLI] else NONE
            free = row[USABLE] & (int(use[MILLI] == 0) << gpu)
            row[FREE] = (row[FREE] & ~(1 << gpu)) | free
    count_whole(state, index, node, was_whole)
    note_change(index, node)
