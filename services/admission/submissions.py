"""Submissions as they come in, by HTTP or on a team's own topic."""

from __future__ import annotations

from services.admission.judge import Judge
from services.admission.memory import AdmissionMemory, identify
from services.admission.parking import ParkedSubmission
from services.admission.teller import VerdictTeller
from shared.core.admission.admit import AdmissionRefusal
from shared.core.queueing import SubmissionTimes
from shared.events import workloads
from shared.events.envelope import Received, workload_id
from shared.events.fingerprint import body_hash
from shared.events.idempotency import KEY_LENGTH_MAX, is_key
from shared.events.malformed import SubmissionMalformed
from shared.events.topics import NATIVE_COMMANDS, team_of


class Submissions:
    """Actions for submissions."""

    def __init__(self, memory: AdmissionMemory, teller: VerdictTeller, judge: Judge) -> None:
        self._memory = memory
        self._teller = teller
        self._judge = judge
        self._times = SubmissionTimes()

    def submitted(self, message: Received, command: workloads.SubmitWorkload) -> None:
        """One submission. On a team's own topic, the team and the door are the topic's."""
        team = team_of(message.topic)
        event = message.event
        identifier = self._memory.ids.get(event.id) or identify(message)
        if not identifier:
            self._teller.outcome.dead.append((message, "workload_id: is missing"))
            return
        one = ParkedSubmission(
            id=identifier,
            team=command.team if team is None else team,
            spec=command.spec,
            body_hash=(command.body_hash if team is None else "") or body_hash(command.spec),
            submitted_at_ms=self._time_of(message, command),
            door=command.door if team is None else "kafka",
            key="" if team is None else event.correlation_id,
            source_offset=-1 if team is None else message.offset,
            by=command.by if team is None else "",
            pod_group=command.pod_group if message.topic == NATIVE_COMMANDS.name else "",
        )
        self._judge.first_or_again(one, message)

    def _time_of(self, message: Received, command: workloads.SubmitWorkload) -> int:
        """The gateway gives times in order; a team's records have theirs from the broker."""
        team, time_ms = team_of(message.topic), message.event.time_ms
        if team is None:
            return command.submitted_at_ms or time_ms
        return self._times.next(team, time_ms)

    def malformed(self, message: Received, submission: SubmissionMalformed) -> None:
        """The record is a dead letter already; its team hears why."""
        team = team_of(message.topic)
        if team is None:
            return
        key = message.event.correlation_id
        answer = workloads.SubmissionAnswered(
            workload_id=workload_id(team, key) if is_key(key) else "",
            idempotency_key=key[:KEY_LENGTH_MAX],
            source_offset=message.offset,
            outcome="rejected",
            message=AdmissionRefusal(errors=submission.errors).message,
            errors=submission.errors,
        )
        self._teller.counts["malformed"] += 1
        self._teller.tell_team(team, answer, message)
