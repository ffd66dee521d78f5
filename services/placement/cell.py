"""One cell in memory: its state, the parts that work on it, and what each does in a unit of work.

Made anew at every load, so nothing that was not committed is ever undone by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from services.placement.backfill.heads import HEAD_AFTER_HOURS
from services.placement.cycle.growth import Growth
from services.placement.cycle.scheduling_cycle import SchedulingCycle
from services.placement.nodes.device_health import ACTS, DeviceHealths, HealthPolicy
from services.placement.nodes.drains import Drains
from services.placement.nodes.kept_room import KeptRoom
from services.placement.nodes.shunning import Shunning
from services.placement.nodes.switching import Switching
from services.placement.nodes.takeovers import Takeovers
from services.placement.preemption.evictions import Evictions
from services.placement.state.fleet import Fleet
from services.placement.state.workload_rows import workload_writes
from services.placement.unit import store
from services.placement.unit.cell_state import START_SECONDS, CellState
from services.placement.unit.ledger import ledger_writes
from services.placement.workloads.queue_drains import QueueDrains
from services.placement.workloads.silence import SILENT_SECONDS, SilentAttempts
from shared.core.nodes.shunning import DEFAULTS, ShunPolicy
from shared.core.scoring import Cluster
from shared.events.envelope import Received
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPolicy:
    """What one cell is told; `seed` decides ties between equal nodes."""

    cell: int = 0
    seed: int = 0
    mig_switch_seconds: int = 0
    head_after_hours: int = HEAD_AFTER_HOURS
    start_seconds: int = START_SECONDS
    silent_seconds: int = SILENT_SECONDS
    shun: ShunPolicy = DEFAULTS
    health: HealthPolicy = ACTS


class Cell:
    """See the module. `quotas` are the nodes of the tree that changed in this unit."""

    def __init__(self, policy: CellPolicy) -> None:
        self.state = state = CellState(
            cell=policy.cell,
            cluster=Cluster(seed=policy.seed),
            head_after_hours=policy.head_after_hours,
            start_seconds=policy.start_seconds,
        )
        self.fleet = fleet = Fleet()
        self.quotas: set[str] = set()
        self.cycle = SchedulingCycle(state)
        self.evictions = Evictions(state, self.cycle)
        self.growth = Growth(state, self.cycle)
        self.queue_drains = QueueDrains(state)
        self.drains = Drains(state, fleet, self.evictions)
        self.shunning = Shunning(state, fleet, self.drains, self.evictions, policy.shun)
        self.health = DeviceHealths(state, fleet, self.drains, self.evictions, policy.health)
        self.switching = Switching(
            state, fleet, self.cycle, self.drains, policy.mig_switch_seconds
        )
        self.takeovers = Takeovers(state, fleet, self.drains, self.evictions)
        self.kept_room = KeptRoom(state, fleet)
        self.silence = SilentAttempts(state, policy.silent_seconds)

    async def load(self, reader: Reader) -> None:
        """Fill it from placement's own tables."""
        await store.load(self.state, self.fleet, reader, f"cell-{self.state.cell}")
        await self.drains.load(reader)
        await self.shunning.load(reader)
        await self.takeovers.load(reader)
        await self.health.load(reader)
        self.cycle.load()
        self.growth.load()
        self.queue_drains.load()
        self.kept_room.load()

    def begin(self, now_ms: int) -> None:
        """Start a unit."""
        self.state.begin(now_ms)
        self.quotas = set()

    def settle(self, message: Received) -> None:
        """What the message did to reservations, before the next one is looked at."""
        reservations = self.state.reservations
        if reservations.ready or reservations.left:
            self.evictions.settle(message)

    def finish(self, now_ms: int) -> Outcome:
        """Try what waits, and write down everything that the unit changed."""
        self.takeovers.settle()
        self.health.settle()
        self.queue_drains.run()
        self.cycle.run()
        self.growth.run()
        self.kept_room.tell()
        state, outcome = self.state, self.state.unit.outcome
        changed = state.records.take_touched()
        outcome.writes.extend(workload_writes(changed, now_ms))
        outcome.writes.extend(state.reservations.writes())
        outcome.writes.extend(state.promises.writes())
        outcome.writes.extend(self.drains.writes())
        outcome.writes.extend(self.shunning.writes(changed))
        outcome.writes.extend(self.takeovers.writes())
        outcome.writes.extend(self.health.records.writes())
        outcome.writes.extend(state.queue_order.writes())
        outcome.writes.extend(state.spent_budgets.writes())
        outcome.writes.extend(ledger_writes(self.fleet, self.quotas, state))
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """Deadlines that have passed, and the rest of a cycle that was cut short."""
        rest = (
            self.cycle.rest(now_ms) or self.queue_drains.rest(now_ms) or self.growth.rest(now_ms)
        )
        nodes = (
            *self.switching.due(now_ms),
            *self.shunning.due(now_ms),
            *self.health.records.due(now_ms),
        )
        kept = (*self.state.promises.due(now_ms), *self.state.quota_heads.due(now_ms))
        own = (*self.state.deadlines.passed(now_ms), *self.silence.due(now_ms))
        return [*own, *kept, *rest, *nodes]

    def next_due_ms(self) -> int | None:
        """The earliest deadline; 0 when a cycle was cut short."""
        if self.cycle.unfinished or self.queue_drains.unfinished:
            return 0
        due = (
            self.state.deadlines.next_ms,
            self.silence.next_due_ms(),
            self.growth.next_due_ms(),
            self.switching.next_due_ms(),
            self.shunning.next_due_ms(),
            self.health.records.next_due_ms(),
            self.state.promises.next_due_ms(),
            self.state.quota_heads.next_due_ms(),
        )
        return min((one for one in due if one is not None), default=None)


Action = Callable[[Cell, Received, Any], None]
"""What one kind of message does to a cell."""
