"""The quota service: what may be tried next.

Three streams meet here in no order between them: queues and commands (`queue_facts.py`), limits
(this module), and what the ledger did (`ledger_facts.py`). Commands and facts therefore keep
flags of their own: `hold_asked` follows the commands, `held` follows the facts, and only what is
free of both is nominated. Charges, priorities and places in a queue follow the facts alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import structlog

from services.quota import metrics
from services.quota.decisions import Decisions
from services.quota.ledger_facts import LedgerFacts
from services.quota.memory import Action, QuotaMemory
from services.quota.queue_facts import QueueFacts
from shared.core.model.team_policy import budget_problems
from shared.core.queueing.nomination import Phase
from shared.core.quota.usage_history import HALF_LIFE_MS
from shared.events import organisation
from shared.events.deadlines import DeadlinePassed, deadline_message
from shared.events.envelope import Received
from shared.events.quotas import EndedWorkloadsCounted
from shared.events.topics import (
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    TEAM_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome

LATE_MS: Final = 250
"""Facts as old as that come from a system that does not keep up."""
QUIET_MS: Final = 1_000
"""After so long without a fact it does again."""

_log = structlog.get_logger("quota")


class QuotaHandler:
    """One cell's quota."""

    name = "quota"

    def __init__(self, *, cell: int = 0, half_life_ms: int = HALF_LIFE_MS) -> None:
        self._cell = cell
        self._half_life_ms = half_life_ms
        self._forget()

    def _forget(self) -> None:
        self.memory = QuotaMemory(self._half_life_ms)
        self._decisions = Decisions(self.memory, self._cell)
        self._turns = 0
        self._late_at_ms = 0
        """When facts were heard that were old already; 0 while the newest are young."""
        self._actions: Mapping[type[Wire], Action] = {
            **QueueFacts(self.memory).actions(),
            **LedgerFacts(self.memory).actions(),
            organisation.QueueApplied: self._limits,
            organisation.CohortApplied: self._limits,
            organisation.FlavorApplied: self._flavor,
            organisation.TeamApplied: self._team,
            organisation.DocumentDeleted: self._deleted,
            organisation.QueueClosed: self._closed,
            DeadlinePassed: self._overdue,
        }

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Limits, queue facts and the ledger's facts of the cell."""
        cell = (self._cell,)
        return [(ORGANISATION_FACTS, (0,)), (QUEUE_FACTS, cell), (WORKLOAD_FACTS, cell)]

    def first(self) -> Collection[Topic]:
        """What waits, before room is given away that came free: the first in order gets it."""
        return (ORGANISATION_FACTS, QUEUE_FACTS)

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Rebuild from quota's own tables."""
        self._forget()
        await self.memory.load(reader)
        for pending in self.memory.records.alive.values():
            if pending.phase is Phase.OFFERED:
                self.memory.answers.nominated(pending, pending.nomination, 0)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order, then look once at every queue that they could help."""
        memory, decisions = self.memory, self._decisions
        actions, core = self._actions, memory.core
        decisions.outcome = outcome = Outcome()
        memory.now_ms = now_ms
        for message in messages:
            action = actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
                if core.decisions:
                    decisions.tell(message)
        if messages:
            for node in memory.documents.empty_unused(memory.is_used):
                limits = memory.documents.limits(node, self._cell)
                decisions.emit(limits, node.name, messages[-1])
            for fact in memory.budgets.review(now_ms, self._cell):
                decisions.emit(fact, fact.team, messages[-1])
            core.settle(announce=self._keeps_up(messages, now_ms))
            decisions.tell(messages[-1])
        outcome.writes.extend(memory.writes())
        self._measure()
        return outcome

    def _keeps_up(self, messages: Sequence[Received], now_ms: int) -> bool:
        """Whether the newest facts are young: what is next in old ones is so no more.

        Where all CPUs are busy, placement would try in vain what it was told of too late.
        """
        heard = [one for one in messages if not isinstance(one.event.payload, DeadlinePassed)]
        if heard:
            late = now_ms - heard[-1].event.time_ms > LATE_MS
            self._late_at_ms = now_ms if late else 0
        return not self._late_at_ms or now_ms >= self._late_at_ms + QUIET_MS

    def _measure(self) -> None:
        self._decisions.measure()
        metrics.OPEN.set(self.memory.core.open)
        metrics.ALIVE.set(len(self.memory.records.alive))

    # ── what is due without a message ────────────────────────────────────────────────────────

    def due(self, now_ms: int) -> Sequence[Received]:
        """Another turn after one that was cut short, overdue answers, and totals to tell."""
        self.memory.answers.begin_waiting(now_ms)
        messages = []
        for kind, due_ms in self._dues():
            if due_ms is not None and due_ms <= now_ms:
                self._turns += 1
                place = f"cell-{self._cell}"
                messages.append(deadline_message(kind, place, self._turns, now_ms))
        return messages

    def next_due_ms(self) -> int | None:
        """At once when a turn is left, else the first of what is due."""
        return min((due_ms for _, due_ms in self._dues() if due_ms is not None), default=None)

    def _dues(self) -> tuple[tuple[str, int | None], ...]:
        """What is to be done, and when."""
        memory = self.memory
        return (
            ("turn", 0 if memory.core.unsettled else None),
            ("next", self._late_at_ms + QUIET_MS if memory.core.unannounced else None),
            ("answers", memory.answers.due_ms()),
            ("ended", memory.ended.due_ms()),
            ("usage", memory.history.due_ms()),
            ("debts", memory.debts.due_ms(alive=bool(memory.records.alive))),
            ("budgets", memory.budgets.due_ms()),
            ("spending", memory.budgets.tell_due_ms()),
        )

    def _overdue(self, message: Received, fact: DeadlinePassed) -> None:
        if fact.kind == "ended":
            self._tell_ended(message)
        elif fact.kind == "usage":
            for told in self.memory.history.tell(self.memory.now_ms, self._cell):
                self._decisions.emit(told, told.queue, message)
        elif fact.kind == "spending":
            for spent in self.memory.budgets.tell(self.memory.now_ms, self._cell):
                self._decisions.emit(spent, spent.team, message)
        elif fact.kind == "debts":
            for debts in self.memory.debts.review(self.memory.now_ms, self._cell):
                self._decisions.emit(debts, "debts", message)
        elif fact.kind == "answers":
            for pending, nomination in self.memory.answers.overdue(self.memory.now_ms):
                self.memory.core.refused(pending, nomination)
                self.memory.records.touch(pending)

    def _tell_ended(self, cause: Received) -> None:
        for team, ended in self.memory.ended.tell(self.memory.now_ms):
            fact = EndedWorkloadsCounted(team=team, ended=ended, cell=self._cell)
            self._decisions.emit(fact, team, cause, TEAM_FACTS)

    # ── limits ───────────────────────────────────────────────────────────────────────────────

    def _limits(
        self, message: Received, applied: organisation.QueueApplied | organisation.CohortApplied
    ) -> None:
        documents = self.memory.documents
        node, problem = documents.apply(applied)
        if problem:
            _complain(problem)
        if node is not None:
            self._decisions.emit(documents.limits(node, self._cell), node.name, message)

    def _flavor(self, message: Received, flavor: organisation.FlavorApplied) -> None:
        memory = self.memory
        problem = memory.documents.apply_flavor(flavor)
        if problem:
            _complain(problem)
        else:
            alive = memory.records.alive.values()
            memory.budgets.apply_price(flavor, message.event.time_ms, alive)

    def _team(self, message: Received, team: organisation.TeamApplied) -> None:  # noqa: ARG002
        problems = budget_problems(team.budget) if team.budget is not None else []
        if problems:
            _complain(f"{team.name}: {problems[0].field} {problems[0].rule}")
        else:
            self.memory.budgets.apply(team)

    def _deleted(self, message: Received, deleted: organisation.DocumentDeleted) -> None:
        """Of a queue admission tells when it lets nothing in any more (`_closed`)."""
        empty = organisation.emptied(deleted)
        match empty:
            case organisation.TeamApplied():
                self._team(message, empty)
            case organisation.FlavorApplied():
                self.memory.documents.apply_flavor(empty)
            case organisation.CohortApplied():
                self.memory.documents.close(deleted)
            case _:
                pass

    def _closed(self, message: Received, closed: organisation.QueueClosed) -> None:  # noqa: ARG002
        deleted = organisation.DocumentDeleted(
            kind="queue", name=closed.queue, version=closed.version
        )
        self.memory.documents.close(deleted)


def _complain(problem: str) -> None:
    metrics.REFUSED_DOCUMENTS.inc()
    _log.warning("document refused, the old one stays", problem=problem[:500])
