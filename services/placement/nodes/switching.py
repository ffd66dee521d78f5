"""Moves idle GPUs between whole and MIG mode, one at a time, by asking their node agent.

core/nodes/mig_switch.py says which; here is the pace. A GPU takes no work from the command on,
until an inventory shows the other mode or `EXPIRES_SECONDS` have passed; that stands in the node's
row, so a restart knows it. Off unless an interval is set; what is open by then ends in its time.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import Final

from services.placement.cycle.growth import CLASSES_MAX, NO_ROOM_WANTED
from services.placement.cycle.scheduling_cycle import SchedulingCycle
from services.placement.nodes.drains import Drains
from services.placement.state.fleet import Fleet
from services.placement.unit.cell_state import CellState
from shared.core.nodes.mig_switch import Switch, Waiting, mig_gpus_for, plan_switch
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.nodes import ReconfigureGpu

KIND: Final = "mig-switch"
"""Kind of the deadline on which a switch is looked for."""
EXPIRES_SECONDS: Final = 300
REST_SECONDS: Final = 3_600
"""After a switch that did not happen in time: an agent that cannot must not cost a GPU."""
NOBODY: Final = Waiting()
EVERYBODY: Final = Waiting(whole=True, mig_gpus=1 << 30)


class Switching:
    """One cell; `seconds` between two looks, 0 for never."""

    def __init__(
        self, state: CellState, fleet: Fleet, cycle: SchedulingCycle, drains: Drains, seconds: int
    ) -> None:
        self._state, self._fleet, self._cycle = state, fleet, cycle
        self._drains = drains
        self._seconds = seconds
        self._looked_at_ms = 0
        self._rests_until_ms = 0

    def due(self, now_ms: int) -> list[Received]:
        """The message on which `look` is called; its id follows from its time."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return []
        name = f"cell-{self._state.cell}"
        return [deadline_message(KIND, name, self._state.epoch, now_ms)]

    def next_due_ms(self) -> int | None:
        """When to look again; None for never. O(switches that are open)."""
        if not self._seconds:
            return min(self._fleet.switches.values(), default=None)
        return self._looked_at_ms + self._seconds * 1000

    def look(self, cause: Received) -> None:
        """Give up what takes too long; if nothing is open, ask for one switch."""
        self._looked_at_ms = self._state.unit.now_ms
        self._give_up(cause)
        if (
            not self._seconds
            or self._fleet.switches
            or self._state.unit.now_ms < self._rests_until_ms
        ):
            return
        waiting = self._waiting()
        kept = {node for one in self._state.promises.kept() for node in one.nodes}
        for flavor in sorted(self._state.cluster.flavors()):
            switch = plan_switch(self._state.cluster, flavor, waiting[flavor], kept)
            if switch is not None:
                self._ask(switch, cause)
                return

    def _give_up(self, cause: Received) -> None:
        for (node, gpu), until_ms in list(self._fleet.switches.items()):
            if until_ms <= self._state.unit.now_ms:
                self._mark(node, gpu, 0, cause)
                self._rests_until_ms = self._state.unit.now_ms + REST_SECONDS * 1000

    def _waiting(self) -> dict[str, Waiting]:
        """By flavor; where there are too many classes to look at, it counts as both."""
        refused = list(islice(self._cycle.refused(), CLASSES_MAX + 1))
        crowd = EVERYBODY if len(refused) > CLASSES_MAX else NOBODY
        found: dict[str, Waiting] = defaultdict(lambda: crowd)
        for record, refusal in refused:
            if refusal.reason in NO_ROOM_WANTED or record.nomination is None:
                continue
            pod_sets = record.workload.spec.pod_sets
            for flavor in record.nomination.flavors:
                known = found[flavor]
                needed = mig_gpus_for(self._state.cluster, flavor, pod_sets)
                whole = any(one.gpu.count or one.gpu.milli for one in pod_sets)
                found[flavor] = Waiting(known.whole or whole, max(known.mig_gpus, needed))
        return found

    def _ask(self, switch: Switch, cause: Received) -> None:
        state = self._state
        until_ms = state.unit.now_ms + EXPIRES_SECONDS * 1000
        node = self._fleet.present[switch.node]
        self._mark(switch.node, switch.gpu, until_ms, cause)
        command = ReconfigureGpu(
            node=switch.node,
            gpu=switch.gpu,
            mig=switch.mig,
            expires_at_ms=until_ms,
            epoch=state.epoch,
            uuid=next(gpu.uuid for gpu in node.gpus if gpu.index == switch.gpu),
            cell=state.cell,
        )
        state.unit.command_node(command, switch.node, cause)

    def _mark(self, node: str, gpu: int, until_ms: int, cause: Received) -> None:
        self._fleet.switch(node, gpu, until_ms)
        self._state.cluster.put_node(self._drains.seen(self._fleet.present[node]))
        if not until_ms:
            self._state.unit.freed_nodes[node] = cause
