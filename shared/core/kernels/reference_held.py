"""What the reference back-end holds and gives back, and how it undoes that (kernels/charge.py)."""

from __future__ import annotations

import numpy as np

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
)
from shared.core.kernels.fleet import Fleet
from shared.core.units import GPU_MILLI


class Held:
    """The pods of one fleet, whose arrays it changes, and a log of what it did."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._log: list[tuple[int, int, tuple[int, ...]]] = []
        """(1 held or -1 given back, slot, row of `State.held`)"""
        self._keeping = False

    def hold(self, slot: int, node: int, gpus: int, shape: int, team: int) -> None:
        """Place a pod of `shape` on `node` and the GPUs of the mask, in an empty slot."""
        row = np.zeros(HELD_COLUMNS, dtype=np.int64)
        row[[HELD_NODE, HELD_GPUS, HELD_SHAPE, HELD_TEAM]] = node, gpus, shape, team
        self.fleet.state.held[slot] = row
        self._log.append((1, slot, tuple(row.tolist())))
        self._charge(slot, 1)

    def give_back(self, slot: int) -> None:
        """Empty a slot; nothing if it is empty."""
        row = self.fleet.state.held[slot]
        if row[HELD_NODE] != NONE:
            self._log.append((-1, slot, tuple(row.tolist())))
            self._charge(slot, -1)

    @property
    def logged(self) -> int:
        """Where the log ends now: what comes after can be undone while one request is decided."""
        return len(self._log)

    def mark(self) -> int:
        """A point to roll back to; from the first one on, everything is logged."""
        self.forget()
        self._keeping = True
        return len(self._log)

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`."""
        while len(self._log) > mark:
            sign, slot, row = self._log.pop()
            self.fleet.state.held[slot] = row
            self._charge(slot, -sign)
            self.fleet.state.held[slot, HELD_NODE] = NONE if sign > 0 else row[HELD_NODE]

    def keep(self) -> None:
        """What was done stays; marks are void."""
        self._keeping = False

    def forget(self) -> None:
        """Without a mark, nothing has to be undone after a request."""
        if not self._keeping:
            self._log.clear()

    def _charge(self, slot: int, sign: int) -> None:
        """Take from the node what the pod in `slot` holds (1), or give it back (-1)."""
        state = self.fleet.state
        node, gpus, shape, team = state.held[slot].tolist()
        pod = state.shapes[shape]
        state.nodes[node, [CPU, MEMORY]] -= sign * pod[[POD_CPU, POD_MEMORY]]
        mask = (gpus >> np.arange(state.gpus.shape[1]) & 1).astype(np.bool_)
        uses = state.gpus[node]
        uses[mask, MILLI] += sign * (pod[SHARE] or GPU_MILLI)
        uses[mask, GPU_MEMORY] -= sign * pod[SHARE_MEMORY]
        in_use = uses[:, MILLI] > 0
        uses[mask, OWNER] = np.where(in_use & (pod[SHARE] > 0), team, NONE)[mask]
        idle = int(np.sum(1 << np.flatnonzero(~in_use & mask)))
        free = int(state.nodes[node, FREE]) & ~gpus | idle & int(state.nodes[node, USABLE])
        state.nodes[node, FREE] = free
        if sign < 0:
            state.held[slot, HELD_NODE] = NONE
