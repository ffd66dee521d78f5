"""The placement service: from messages to transitions, a scheduling cycle and rows.

Every message goes to the transition of one workload, one node or one quota; then what waits is
tried, in order; then all rows of the batch are written at once. What each kind of message does is
in the modules `*_messages.py`, by where it comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from services.placement.backfill.heads import HEAD_AFTER_HOURS
from services.placement.cell import Action, Cell, CellPolicy
from services.placement.messages import (
    command_messages,
    deadline_messages,
    node_messages,
    pod_messages,
    queue_messages,
)
from services.placement.nodes.device_health import ACTS, HealthPolicy
from services.placement.nodes.drains import Drains
from services.placement.nodes.shunning import Shunning
from services.placement.state.fleet import Fleet
from services.placement.unit.agreement import Agreement
from services.placement.unit.cell_state import START_SECONDS, CellState
from services.placement.workloads.silence import SILENT_SECONDS
from shared.core.nodes.shunning import DEFAULTS, ShunPolicy
from shared.events import topics
from shared.events.envelope import Received
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome
from shared.runtime.trimming import Trim

ACTIONS: Final[dict[type, Action]] = {
    **queue_messages.ACTIONS,
    **command_messages.ACTIONS,
    **pod_messages.ACTIONS,
    **node_messages.ACTIONS,
    **deadline_messages.ACTIONS,
}


class PlacementHandler:
    """One cell's placement; `seed` decides ties between equal nodes."""

    name = "placement"

    def __init__(
        self,
        *,
        cell: int = 0,
        seed: int = 0,
        trims: Sequence[Trim] = (),
        mig_switch_seconds: int = 0,
        head_after_hours: int = HEAD_AFTER_HOURS,
        start_seconds: int = START_SECONDS,
        silent_seconds: int = SILENT_SECONDS,
        shun: ShunPolicy = DEFAULTS,
        health: HealthPolicy = ACTS,
    ) -> None:
        self.trims = trims
        self._policy = CellPolicy(
            cell=cell,
            seed=seed,
            mig_switch_seconds=mig_switch_seconds,
            head_after_hours=head_after_hours,
            start_seconds=start_seconds,
            silent_seconds=silent_seconds,
            shun=shun,
            health=health,
        )
        self._forget()

    def _forget(self) -> None:
        self.cell = Cell(self._policy)
        self._agreement = Agreement()

    @property
    def state(self) -> CellState:
        """The state of the cell."""
        return self.cell.state

    @property
    def fleet(self) -> Fleet:
        """Its nodes, as they were reported."""
        return self.cell.fleet

    @property
    def drains(self) -> Drains:
        """Its nodes that are to take no work."""
        return self.cell.drains

    @property
    def shunning(self) -> Shunning:
        """Its nodes on which work does not start."""
        return self.cell.shunning

    def topics(self) -> Sequence[tuple[topics.Topic, Sequence[int]]]:
        """Queue, quota, pod and node facts of the cell, eviction plans, and drains of nodes."""
        cell = (self._policy.cell,)
        return [
            (topics.QUEUE_FACTS, cell),
            (topics.QUOTA_FACTS, cell),
            (topics.POD_FACTS, cell),
            (topics.NODE_FACTS, cell),
            (topics.HEALTH_FACTS, cell),
            (topics.PLAN_COMMANDS, cell),
            (topics.NODE_COMMANDS, cell),
        ]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return ACTIONS

    async def load(self, reader: Reader) -> None:
        """Rebuild from placement's own tables."""
        self._forget()
        await self.cell.load(reader)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory; now and then it is compared with the database."""
        if messages:
            await self._agreement.check(self.state, reader)

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order, then try what waits; deterministic.

        Without any (all were known, or dead letters) nothing has changed, and what was told would
        have the id of something told before: an event id is (cause, index).
        """
        if not messages:
            return Outcome()
        cell = self.cell
        cell.begin(now_ms)
        for message in messages:
            cell.state.unit.last_cause = message
            action = ACTIONS.get(type(message.event.payload))
            if action is not None:
                action(cell, message, message.event.payload)
                cell.settle(message)
        return cell.finish(now_ms)

    def due(self, now_ms: int) -> Sequence[Received]:
        """Deadlines that have passed, and the rest of a cycle that was cut short."""
        return self.cell.due(now_ms)

    def next_due_ms(self) -> int | None:
        """The earliest deadline; 0 when a cycle was cut short."""
        return self.cell.next_due_ms()
