"""Empties queues that drain: what runs of them is evicted, a bounded number in each unit.

A queue drains as long as its document says so (`draining`, Kueue's HoldAndDrain). Nothing of it
may be placed meanwhile (`Usage.names`), and quota nominates nothing of it, so what was evicted
waits in its place until the queue is opened again. Protected classes go too: whoever drains a
queue means all of it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.model.reason import Reason
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

EVICTED_MAX: Final = 500
"""Workloads evicted in one unit."""


class QueueDrains:
    """What is still to be evicted from the draining queues of one cell."""

    def __init__(self, state: CellState) -> None:
        self._state = state
        self._line: deque[str] = deque()

    def load(self) -> None:
        """Go on with every queue that drains."""
        for name in sorted(self._state.usage.facts):
            self.begin(name)

    def begin(self, queue: str) -> None:
        """If the queue drains, note all that runs of it, by id. O(living workloads)."""
        if not self._drains(queue):
            return
        running = (
            name
            for name, record in self._state.records.alive.items()
            if record.workload.queue == queue and record.state in transitions.HAS_PODS
        )
        self._line.extend(sorted(running))

    def run(self) -> None:
        """Evict the next ones."""
        cause = self._state.unit.last_cause
        for _ in range(min(EVICTED_MAX, len(self._line))):
            assert cause is not None
            record = self._state.records.alive.get(self._line.popleft())
            if record is not None and self._drains(record.workload.queue):
                message = f"queue {record.workload.queue} is drained"
                transitions.evict(self._state, record, Reason.DRAINED, message, cause)

    def rest(self, now_ms: int) -> list[Received]:
        """The message with which it goes on."""
        if not self._line:
            return []
        cause = self._state.unit.last_cause
        name = cause.event.id if cause is not None else f"epoch-{self._state.epoch}"
        return [deadline_message("queue-drain", name, self._state.epoch, now_ms)]

    @property
    def unfinished(self) -> bool:
        """Whether any is left."""
        return bool(self._line)

    def _drains(self, queue: str) -> bool:
        fact = self._state.usage.facts.get(queue)
        return fact is not None and fact.draining
