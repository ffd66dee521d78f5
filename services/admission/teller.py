"""Puts what admission decided into the outcome of the present batch.

What speaks of a workload leaves on the one topic and partition of its `WorkloadQueued`; a team
that submits by Kafka is answered on its own topic besides.
"""

from __future__ import annotations

from collections import Counter

from services.admission import metrics
from services.admission.parking import ParkedSubmission
from shared.core.model.decision import FieldError
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.topics import QUEUE_FACTS, Topic, team_results
from shared.events.workloads import Wire
from shared.runtime.handler import Emit, Outcome


class VerdictTeller:
    """The outcome, and how many verdicts of each kind it has."""

    def __init__(self, cell: int) -> None:
        self._cell = cell
        self._results: dict[str, Topic] = {}
        self.outcome = Outcome()
        self.counts: Counter[str] = Counter()

    def emit(self, payload: Wire, subject: str, cause: Received) -> None:
        """A fact, or a command passed on, about a workload."""
        self.outcome.emits.append(
            Emit(
                payload=payload,
                topic=QUEUE_FACTS,
                subject=subject,
                cause=cause,
                partition=self._cell,
            )
        )

    def answer(
        self,
        one: ParkedSubmission,
        outcome: str,
        message: str,
        errors: tuple[FieldError, ...],
        cause: Received,
    ) -> None:
        """On the team's results topic, for each submission by Kafka."""
        if not one.key:
            return
        answer = workloads.SubmissionAnswered(
            workload_id=one.id,
            idempotency_key=one.key,
            source_offset=one.source_offset,
            outcome=outcome,
            message=message,
            errors=errors,
        )
        self.tell_team(one.team, answer, cause)

    def tell_team(
        self,
        team: str,
        answer: workloads.SubmissionAnswered | workloads.WorkloadChanged,
        cause: Received,
    ) -> None:
        """An answer, or what became of a workload, on a team's results topic."""
        topic = self._results.get(team)
        if topic is None:
            topic = self._results[team] = team_results(team)
        emit = Emit(payload=answer, topic=topic, subject=answer.workload_id, cause=cause)
        self.outcome.emits.append(emit)

    def measure(self) -> None:
        """Counts of verdicts since the last call."""
        for outcome, count in self.counts.items():
            metrics.VERDICTS.labels(outcome).inc(count)
        self.counts.clear()
