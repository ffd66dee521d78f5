"""Tells what new work is kept off, so that no eviction frees room that could not be used."""

from __future__ import annotations

from services.placement.state.fleet import Fleet
from services.placement.unit.cell_state import CellState
from shared.events.nodes import NodesKept, SwitchingGpu


class KeptRoom:
    """Nodes kept for promised starts, and GPUs that take no work, in one cell."""

    def __init__(self, state: CellState, fleet: Fleet) -> None:
        self._state, self._fleet = state, fleet
        self._told = self._now()

    def load(self) -> None:
        """What stands in the rows was told with them."""
        self._told = self._now()

    def tell(self) -> None:
        """At the end of a unit, if anything is other than was told."""
        state, now = self._state, self._now()
        if now != self._told and state.unit.last_cause is not None:
            self._told = now
            state.unit.tell_about(now, f"cell-{state.cell}", state.unit.last_cause)

    def _now(self) -> NodesKept:
        fleet = self._fleet
        out = sorted({*fleet.switches, *fleet.disputed, *fleet.out_of_service})
        switching = tuple(SwitchingGpu(node=node, gpu=gpu) for node, gpu in out)
        return NodesKept(
            kept=self._state.promises.kept(), switching=switching, cell=self._state.cell
        )
