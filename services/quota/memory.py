"""All that quota knows of one cell, rebuilt from its own tables and written back to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from services.quota.answers import Answers
from services.quota.budgets import Budgets
from services.quota.debts import NodeDebts
from services.quota.documents import Documents
from services.quota.ended import EndedTotals
from services.quota.history import History
from services.quota.records import QuotaRecords
from shared.core.queueing.nomination import Nominator, Pending, Phase
from shared.events.envelope import Received
from shared.ports.reader import Reader
from shared.ports.store import Write

Action = Callable[[Received, Any], None]
"""What a message changes; it gets the message and its payload."""


class QuotaMemory:
    """The core that nominates, what it decides from, and the time of the present batch."""

    def __init__(self, half_life_ms: int) -> None:
        self.core = Nominator()
        self.documents = Documents(self.core)
        self.records = QuotaRecords()
        self.answers = Answers()
        self.ended = EndedTotals()
        self.history = History(half_life_ms)
        self.budgets = Budgets(self.core)
        self.debts = NodeDebts(self.core)
        self.now_ms = 0
        self.core.used = lambda queue: self.history.at(queue, self.now_ms)

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        await self.documents.load(reader)
        await self.records.load(reader, self.core)
        await self.ended.load(reader)
        await self.history.load(reader, self.records.alive.values())
        await self.debts.load(reader)
        await self.budgets.load(reader, self.records.alive.values())
        self.core.resume()

    def enter(self, pending: Pending) -> None:
        """Into its line, unless it is there, runs, or is held or cancelled."""
        if pending.eligible and pending.phase is Phase.IDLE:
            self.core.enter(pending)

    def is_used(self, queue: str) -> bool:
        """Whether work is alive in a queue. O(workloads): asked of deleted queues alone."""
        alive = self.records.alive.values()
        return any(one.queue == queue and one.phase is not Phase.GONE for one in alive)

    def writes(self) -> list[Write]:
        """Rows of what is new since the last call."""
        parts: tuple[Sequence[Write], ...] = (
            self.records.writes(),
            self.documents.writes(),
            self.ended.writes(),
            self.history.writes(),
            self.debts.writes(),
            self.budgets.writes(),
        )
        return [write for part in parts for write in part]
