"""The admission service: from submissions to verdicts, and later commands in their order.

Whatever speaks of an accepted workload leaves on the one topic and partition on which its
`WorkloadQueued` travels, so nobody downstream sees a cancellation before the workload. The judge
of idempotency is (workload id, body hash): the same again is answered again and queued once;
another body under the same key is a conflict, and the first workload stands (mission M2, M3).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec
import structlog

from services.admission import metrics
from services.admission.alive import Alive
from services.admission.known import ACCEPTED, REJECTED, Known, Verdict
from services.admission.parking import (
    FIT_WAIT_MS,
    NAMES_WAIT_MS,
    PARKED_MAX,
    Parking,
    Submission,
)
from services.admission.rulebook import Rulebook
from shared.core.admission import AdmittedWorkload, Doubt, Refused, admit, class_for_team
from shared.core.lifecycle import State
from shared.core.model import Workload
from shared.events import nodes, organisation, quotas, workloads
from shared.events.deadlines import DeadlinePassed, deadline_message
from shared.events.envelope import Received, workload_id
from shared.events.fingerprint import body_hash
from shared.events.malformed import SubmissionMalformed
from shared.events.topics import (
    NODE_FACTS,
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    SUBMISSION_COMMANDS,
    TEAM_FACTS,
    Topic,
    team_of,
    team_results,
    team_submissions,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Change, Emit, Outcome

_is_key: Final = re.compile(r"[ -~]{1,200}").fullmatch
_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger("admission")


class AdmissionHandler:
    """One cell's admission. The teams' own topics are read by cell 0."""

    name = "admission"

    def __init__(self, *, cell: int = 0) -> None:
        self._cell = cell
        self._actions: dict[type[Wire], Callable[[Received, Any], None]] = {
            workloads.SubmitWorkload: self._submitted,
            SubmissionMalformed: self._malformed,
            workloads.CancelWorkload: self._commanded,
            workloads.HoldWorkload: self._commanded,
            workloads.ReleaseWorkload: self._commanded,
            workloads.ReprioritiseWorkload: self._reprioritise,
            workloads.RequestEviction: self._commanded,
            organisation.TeamApplied: self._applied,
            organisation.QueueApplied: self._applied,
            organisation.CohortApplied: self._applied,
            organisation.PriorityClassApplied: self._applied,
            quotas.EndedWorkloadsCounted: self._ended,
            nodes.NodeInventoryReported: self._reported,
            nodes.NodeRemoved: self._removed,
            DeadlinePassed: self._due,
        }
        self._results: dict[str, Topic] = {}
        self._forget()

    def _forget(self) -> None:
        self._known = Known()
        self._parking = Parking()
        self._book = Rulebook()
        self._alive = Alive()
        self._ids: dict[str, str] = {}
        self._outcome = Outcome()
        self._counts: Counter[str] = Counter()
        self._now_ms = 0
        self._news = False

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Commands and facts of the cell, and the submissions of every team by Kafka."""
        cell = (self._cell,)
        fixed = [
            (SUBMISSION_COMMANDS, cell),
            (ORGANISATION_FACTS, (0,)),
            (NODE_FACTS, cell),
            (TEAM_FACTS, cell),
        ]
        if self._cell:
            return fixed
        return [*fixed, *((team_submissions(team), (0,)) for team in self._book.kafka_teams)]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Rebuild from admission's own tables."""
        self._forget()
        await self._book.load(reader)
        await self._known.load(reader)
        await self._parking.load(reader)
        await self._alive.load(reader)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Derive the ids of the batch, and look up those that memory may have forgotten."""
        self._ids = {one.event.id: _identify(one) for one in messages}
        await self._known.look_up({one for one in self._ids.values() if one}, reader)

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Judge the messages in order, then those that waited for the facts among them."""
        self._outcome = outcome = Outcome()
        self._now_ms = now_ms
        self._news = False
        actions = self._actions
        for message in messages:
            action = actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
        if self._news and len(self._parking):
            for one in self._parking.all():
                self._judge(one, messages[-1])
        outcome.writes.extend(self._known.writes(now_ms))
        outcome.writes.extend(self._parking.writes())
        outcome.writes.extend(self._book.writes())
        outcome.writes.extend(self._alive.writes())
        self._measure()
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """Parked submissions whose time is up."""
        return [
            deadline_message("parked", one.id, 0, one.due_ms) for one in self._parking.due(now_ms)
        ]

    def next_due_ms(self) -> int | None:
        """When the next parked submission must be answered."""
        return self._parking.next_due_ms()

    # ── submissions ──────────────────────────────────────────────────────────────────────────

    def _submitted(self, message: Received, command: workloads.SubmitWorkload) -> None:
        team = team_of(message.topic)
        event = message.event
        key = "" if team is None else event.correlation_id or event.id
        identifier = self._ids.get(event.id) or _identify(message)
        problem = ""
        if team is not None and not _is_key(key):
            problem = "ce_id: must be 1 to 200 printable ASCII characters"
        elif not identifier:
            problem = "workload_id: is missing"
        if problem:
            self._outcome.dead.append((message, problem))
            return
        one = Submission(
            id=identifier,
            team=command.team if team is None else team,
            spec=command.spec,
            body_hash=(command.body_hash if team is None else "") or body_hash(command.spec),
            submitted_at_ms=event.time_ms,
            door=command.door if team is None else "kafka",
            key=key,
        )
        self._first_or_again(one, message)

    def _first_or_again(self, one: Submission, message: Received) -> None:
        verdict = self._known.get(one.id)
        parked = None if verdict is not None else self._parking.get(one.id)
        if verdict is None and parked is None:
            self._judge(one, message)
            return
        known_hash = verdict.body_hash if verdict is not None else parked and parked.body_hash
        if known_hash != one.body_hash:
            self._conflict(one, message)
        elif verdict is not None:
            self._counts["repeated"] += 1
            self._answer(one, verdict.state, verdict.message, verdict.errors, message)

    def _conflict(self, one: Submission, message: Received) -> None:
        text = "this idempotency key was used for another submission; that one stands"
        fact = workloads.SubmissionConflicted(workload_id=one.id, team=one.team, message=text)
        self._emit(fact, one.id, message)
        self._counts["conflicted"] += 1
        self._answer(one, "conflicted", text, (), message)

    def _judge(self, one: Submission, cause: Received, *, final: bool = False) -> None:
        """Decide about a submission that has no verdict yet, or let it wait for facts."""
        verdict = admit(one.spec, one.team, self._book.rules)
        if isinstance(verdict, AdmittedWorkload):
            most = self._book.rules.teams[one.team].max_pending
            verdict = self._alive.refusal(one.team, most) or verdict
        if isinstance(verdict, Refused):
            if not final and self._waits(one, verdict):
                return
            self._reject(one, verdict, cause)
        else:
            self._accept(one, verdict, cause)
        if one.due_ms:
            self._parking.remove(one.id)

    def _waits(self, one: Submission, refused: Refused) -> bool:
        """Whether facts under way could turn the refusal; parks it then."""
        if refused.doubt is Doubt.NONE:
            return False
        if one.due_ms:
            return self._now_ms < one.due_ms
        wait_ms = NAMES_WAIT_MS
        if refused.doubt is Doubt.FIT:
            wait_ms = self._book.changed_at_ms + FIT_WAIT_MS - self._now_ms
        if wait_ms <= 0 or len(self._parking) >= PARKED_MAX:
            return False
        due_ms = self._now_ms + wait_ms
        self._parking.put(msgspec.structs.replace(one, doubt=refused.doubt, due_ms=due_ms))
        return True

    def _accept(self, one: Submission, admitted: AdmittedWorkload, cause: Received) -> None:
        workload = Workload(
            id=one.id,
            team=one.team,
            queue=admitted.queue,
            cell=self._cell,
            priority=admitted.priority,
            spec=admitted.spec,
            submitted_at_ms=one.submitted_at_ms,
        )
        self._alive.accept(one.team)
        fact = workloads.WorkloadQueued(workload=workload, body_hash=one.body_hash, door=one.door)
        self._emit(fact, one.id, cause)
        self._decided(one, Verdict(one.team, one.body_hash, ACCEPTED), State.QUEUED, cause)

    def _reject(self, one: Submission, refused: Refused, cause: Received) -> None:
        fact = workloads.WorkloadRejected(
            workload_id=one.id,
            team=one.team,
            name=one.spec.name,
            kind=one.spec.kind.value,
            body_hash=one.body_hash,
            errors=refused.errors,
            message=refused.message,
            cell=self._cell,
        )
        self._emit(fact, one.id, cause)
        verdict = Verdict(one.team, one.body_hash, REJECTED, refused.message, refused.errors)
        self._decided(one, verdict, State.REJECTED, cause)

    def _decided(self, one: Submission, verdict: Verdict, state: State, cause: Received) -> None:
        self._known.add(one.id, verdict)
        self._counts[verdict.state] += 1
        self._outcome.changes.append(
            Change(
                subject=one.id,
                version=1,
                before=State.RECEIVED.value,
                after=state.value,
                cause=cause,
                actor=f"{one.team}/{one.door}",
                kind="workload",
            )
        )
        self._answer(one, verdict.state, verdict.message, verdict.errors, cause)

    def _answer(
        self,
        one: Submission,
        outcome: str,
        message: str,
        errors: tuple[Any, ...],
        cause: Received,
    ) -> None:
        """On the team's results topic, for each submission by Kafka."""
        if not one.key:
            return
        answer = workloads.SubmissionAnswered(
            workload_id=one.id,
            idempotency_key=one.key,
            outcome=outcome,
            message=message,
            errors=errors,
        )
        self._tell_team(one.team, answer, cause)

    def _malformed(self, message: Received, submission: SubmissionMalformed) -> None:
        """The record is a dead letter already; its team hears why."""
        team = team_of(message.topic)
        if team is None:
            return
        key = message.event.correlation_id
        answer = workloads.SubmissionAnswered(
            workload_id=workload_id(team, key) if _is_key(key) else "",
            idempotency_key=key,
            outcome="rejected",
            message=Refused(errors=submission.errors).message,
            errors=submission.errors,
        )
        self._counts["malformed"] += 1
        self._tell_team(team, answer, message)

    def _tell_team(self, team: str, answer: workloads.SubmissionAnswered, cause: Received) -> None:
        topic = self._results.get(team)
        if topic is None:
            topic = self._results[team] = team_results(team)
        emit = Emit(payload=answer, topic=topic, subject=answer.workload_id, cause=cause)
        self._outcome.emits.append(emit)

    # ── later commands ───────────────────────────────────────────────────────────────────────

    def _commanded(self, message: Received, command: Any) -> None:  # noqa: ANN401  # four alike
        if self._may_command(message, command):
            self._emit(command, command.workload_id, message)

    def _reprioritise(self, message: Received, command: workloads.ReprioritiseWorkload) -> None:
        if not self._may_command(message, command):
            return
        found = class_for_team(command.priority_class, command.team, self._book.rules)
        if found is None:
            self._drop(command, "priority class is not the team's to use")
            return
        filled = msgspec.structs.replace(command, priority=found.value)
        self._emit(filled, command.workload_id, message)

    def _may_command(self, message: Received, command: Any) -> bool:  # noqa: ANN401
        if team_of(message.topic) is not None:
            self._outcome.dead.append((message, "ce_type: only submissions are taken here"))
            return False
        parked = self._parking.get(command.workload_id)
        if parked is not None:  # a command may not overtake the verdict
            self._judge(parked, message, final=True)
        verdict = self._known.get(command.workload_id)
        if verdict is None:
            return self._drop(command, "unknown workload")
        if verdict.team != command.team:
            return self._drop(command, "another team's workload")
        if verdict.state != ACCEPTED:
            return self._drop(command, "rejected workload")
        return True

    def _drop(self, command: Any, reason: str) -> bool:  # noqa: ANN401
        metrics.DROPPED.labels(reason).inc()
        _log.warning(
            "command dropped",
            command=type(command).__name__,
            workload=command.workload_id[:64],
            reason=reason,
        )
        return False

    # ── facts to judge by ────────────────────────────────────────────────────────────────────

    def _applied(self, message: Received, document: Any) -> None:  # noqa: ANN401, ARG002
        self._news |= self._book.apply(document, self._now_ms)

    def _ended(self, message: Received, fact: quotas.EndedWorkloadsCounted) -> None:  # noqa: ARG002
        self._alive.end(fact.team, fact.ended)

    def _reported(self, message: Received, fact: nodes.NodeInventoryReported) -> None:  # noqa: ARG002
        self._news |= self._book.report(fact, self._now_ms)

    def _removed(self, message: Received, fact: nodes.NodeRemoved) -> None:  # noqa: ARG002
        self._book.remove(fact)

    def _due(self, message: Received, fact: DeadlinePassed) -> None:
        parked = self._parking.get(fact.subject)
        if parked is not None:
            self._judge(parked, message, final=True)

    def _emit(self, payload: Wire, subject: str, cause: Received) -> None:
        self._outcome.emits.append(
            Emit(
                payload=payload,
                topic=QUEUE_FACTS,
                subject=subject,
                cause=cause,
                partition=self._cell,
            )
        )

    def _measure(self) -> None:
        for outcome, count in self._counts.items():
            metrics.VERDICTS.labels(outcome).inc(count)
        self._counts.clear()
        metrics.PARKED.set(len(self._parking))
        metrics.FLEET.set(len(self._book.rules.fleet))


def _identify(message: Received) -> str:
    """The workload id that a message speaks of; "" for one that speaks of none."""
    event = message.event
    team = team_of(message.topic)
    if team is not None:
        return workload_id(team, event.correlation_id or event.id)
    return getattr(event.payload, "workload_id", "")
