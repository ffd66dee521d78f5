"""The reference back-end: every decision looks at all nodes, in NumPy, and keeps no index.

It says in few lines what the compiled back-end decides, and is what decides where numba is not
installed. O(n) for each pod.
"""

from __future__ import annotations

from shared.core.kernels.arrays import (
    GANG,
    GPUS,
    NONE,
    PLACE,
    PODS,
    SHAPE,
    SHARE,
    SLOT,
    TEAM,
    WHAT,
    Ints,
)
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.reference_gangs import Gangs
from shared.core.kernels.reference_held import Held
from shared.core.kernels.reference_single import best_gpu, best_node, pick


class Reference:
    """Decides for one fleet, whose `state` it changes."""

    def __init__(self, fleet: Fleet) -> None:
        """It keeps nothing but a log."""
        self.fleet = fleet
        self._held = Held(fleet)
        self._gangs = Gangs(fleet, self._held)

    def run(self, requests: Ints) -> None:
        """Work off requests (n, REQUEST_COLUMNS) in order; answers are in `State.held`.

        `fleet.learn` must have been called.
        """
        for request in requests.tolist():
            self._held.forget()
            if request[WHAT] == PLACE:
                self._single(request[SLOT], request[SHAPE], request[TEAM])
            elif request[WHAT] == GANG:
                self._gangs.place(request)
            else:
                for slot in range(request[SLOT], request[SLOT] + request[PODS]):
                    self._held.give_back(slot)

    def mark(self) -> int:
        """A point to roll back to; from the first one on, everything is logged."""
        return self._held.mark()

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`."""
        self._held.roll_back(mark)

    def keep(self) -> None:
        """What was done stays; marks are void."""
        self._held.keep()

    def _single(self, slot: int, shape: int, team: int) -> None:
        node, score = best_node(self.fleet, shape)
        opened = int(self.fleet.state.shapes[shape, GPUS])
        if self.fleet.state.shapes[shape, SHARE]:
            opened = 1
            on_gpu, gpu, gpu_score = best_gpu(self.fleet, shape, team)
            if on_gpu != NONE and gpu_score >= score:
                self._held.hold(slot, on_gpu, 1 << gpu, shape, team)
                return
        if node != NONE:
            self._held.hold(slot, node, pick(self.fleet.state, node, opened), shape, team)
