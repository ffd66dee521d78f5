"""The admission service: from submissions to verdicts, and later commands in their order.

Whatever speaks of an accepted workload leaves on the one topic and partition on which its
`WorkloadQueued` travels, so nothing downstream sees a cancellation before the workload.
Submissions come in by `submissions.py`, are judged in `judge.py`; commands are in `commands.py`,
and what a team is told of its work later in `changes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from services.admission import metrics
from services.admission.changes import TOLD, Changes
from services.admission.commands import Commands
from services.admission.judge import Judge
from services.admission.memory import AdmissionMemory
from services.admission.submissions import Submissions
from services.admission.teller import VerdictTeller
from shared.core.admission.fleet_shape import FleetShape
from shared.events import nodes, organisation, quotas, workloads
from shared.events.deadlines import DeadlinePassed, deadline_message
from shared.events.envelope import Received
from shared.events.malformed import SubmissionMalformed
from shared.events.topics import (
    NATIVE_COMMANDS,
    NODE_FACTS,
    ORGANISATION_FACTS,
    SUBMISSION_COMMANDS,
    TEAM_FACTS,
    WORKLOAD_FACTS,
    Topic,
    team_submissions,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome

CLOCKS_MS: Final = 60_000
"""How far the clocks of a broker and a service may be apart."""


class AdmissionHandler:
    """One cell's admission. The teams' own topics are read by cell 0.

    `switching`: GPUs change their mode as work asks for it (`core.fleet_shape.FleetShape`).
    """

    name = "admission"

    def __init__(self, *, cell: int = 0, switching: bool = False) -> None:
        self._cell, self._switching = cell, switching
        self._forget()

    def _forget(self) -> None:
        self.memory = memory = AdmissionMemory(FleetShape(switching=self._switching))
        self._teller = VerdictTeller(self._cell)
        self._judge = Judge(memory, self._teller, self._cell)
        submissions = Submissions(memory, self._teller, self._judge)
        commands = Commands(memory, self._teller, self._judge)
        self._news = False
        self._actions: Mapping[type[Wire], Callable[[Received, Any], None]] = {
            workloads.SubmitWorkload: submissions.submitted,
            SubmissionMalformed: submissions.malformed,
            workloads.CancelWorkload: commands.commanded,
            workloads.HoldWorkload: commands.commanded,
            workloads.ReleaseWorkload: commands.commanded,
            workloads.ReprioritiseWorkload: commands.reprioritise,
            workloads.ResizeWorkload: commands.commanded,
            workloads.RequestEviction: commands.commanded,
            organisation.TeamApplied: self._applied,
            organisation.QueueApplied: self._applied,
            organisation.CohortApplied: self._applied,
            organisation.PriorityClassApplied: self._applied,
            organisation.DocumentDeleted: self._deleted,
            quotas.EndedWorkloadsCounted: self._ended,
            nodes.NodeInventoryReported: self._reported,
            nodes.NodeRemoved: self._removed,
            DeadlinePassed: self._due,
            **dict.fromkeys(TOLD, Changes(memory, self._teller).changed),
        }

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Commands and facts of the cell, and the submissions of every team by Kafka.

        Facts of placement are read where a team is told of them.
        """
        cell = (self._cell,)
        fixed = [
            (SUBMISSION_COMMANDS, cell),
            (NATIVE_COMMANDS, cell),
            (ORGANISATION_FACTS, (0,)),
            (NODE_FACTS, cell),
            (TEAM_FACTS, cell),
        ]
        if len(self.memory.told):
            fixed.append((WORKLOAD_FACTS, cell))
        if self._cell:
            return fixed
        return [*fixed, *((team_submissions(team), (0,)) for team in self.memory.book.kafka_teams)]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    def since_ms(self, topic: str) -> int:
        """Facts of placement from before a team wanted them are passed over."""
        return self.memory.told.first_ms() - CLOCKS_MS if topic == WORKLOAD_FACTS.name else 0

    async def load(self, reader: Reader) -> None:
        """Rebuild from admission's own tables."""
        self._forget()
        await self.memory.load(reader)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Derive the ids of the batch, and look up those that memory may have forgotten."""
        await self.memory.prepare(messages, reader)

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Judge the messages in order, then those that waited for the facts among them."""
        self._teller.outcome = outcome = Outcome()
        self.memory.now_ms = now_ms
        self._news = False
        actions, parking = self._actions, self.memory.parking
        for message in messages:
            action = actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
        if self._news and len(parking):
            for one in parking.all():
                self._judge.judge(one, messages[-1])
        outcome.writes.extend(self.memory.writes())
        self._measure()
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """Parked submissions of which the time is up."""
        return [
            deadline_message("parked", one.id, 0, one.due_ms)
            for one in self.memory.parking.due(now_ms)
        ]

    def next_due_ms(self) -> int | None:
        """When the next parked submission must be answered."""
        return self.memory.parking.next_due_ms()

    # ── facts to judge by ────────────────────────────────────────────────────────────────────

    def _applied(self, message: Received, document: Any) -> None:  # noqa: ANN401
        news = self.memory.book.apply(document, self.memory.now_ms)
        if news and isinstance(document, organisation.TeamApplied):
            self.memory.told.apply(document, message.event.time_ms)
        self._news |= news

    def _deleted(self, message: Received, deleted: organisation.DocumentDeleted) -> None:
        """From here on nothing is let in by it; quota hears that behind all that was."""
        if not self.memory.book.delete(deleted, self.memory.now_ms):
            return
        self._news = True
        empty = organisation.emptied(deleted)
        if isinstance(empty, organisation.TeamApplied):
            self.memory.told.apply(empty, message.event.time_ms)
        if deleted.kind == "queue":
            closed = organisation.QueueClosed(
                queue=deleted.name, version=deleted.version, cell=self._cell
            )
            self._teller.emit(closed, deleted.name, message)

    def _ended(self, message: Received, fact: quotas.EndedWorkloadsCounted) -> None:  # noqa: ARG002
        self.memory.alive.end(fact.team, fact.ended)

    def _reported(self, message: Received, fact: nodes.NodeInventoryReported) -> None:  # noqa: ARG002
        self._news |= self.memory.book.report(fact, self.memory.now_ms)

    def _removed(self, message: Received, fact: nodes.NodeRemoved) -> None:  # noqa: ARG002
        self.memory.book.remove(fact)

    def _due(self, message: Received, fact: DeadlinePassed) -> None:
        parked = self.memory.parking.get(fact.subject)
        if parked is not None:
            self._judge.judge(parked, message, final=True)

    def _measure(self) -> None:
        self._teller.measure()
        metrics.PARKED.set(len(self.memory.parking))
        metrics.FLEET.set(len(self.memory.book.rules.fleet))
