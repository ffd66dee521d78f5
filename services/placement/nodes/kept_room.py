"""Tells what new work is kept off, so that nobody is evicted for room that could not be used."""

from __future__ import annotations

from services.placement.state.fleet import Fleet
from services.placement.unit.desk import Desk
from shared.events.nodes import NodesKept, SwitchingGpu


class KeptRoom:
    """Nodes kept for promised starts, GPUs that change their mode or are disputed, in one cell."""

    def __init__(self, desk: Desk, fleet: Fleet) -> None:
        self._desk, self._fleet = desk, fleet
        self._told = self._now()

    def load(self) -> None:
        """What stands in the rows was told with them."""
        self._told = self._now()

    def tell(self) -> None:
        """At the end of a unit, if anything is other than was told."""
        desk, now = self._desk, self._now()
        if now != self._told and desk.last_cause is not None:
            self._told = now
            desk.tell_about(now, f"cell-{desk.cell}", desk.last_cause)

    def _now(self) -> NodesKept:
        out = sorted({*self._fleet.switches, *self._fleet.disputed})
        switching = tuple(SwitchingGpu(node=node, gpu=gpu) for node, gpu in out)
        return NodesKept(
            kept=self._desk.promises.kept(), switching=switching, cell=self._desk.cell
        )
