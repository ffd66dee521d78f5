"""The verdict on one submission: accepted, rejected, or let wait for facts that are under way.

What decides whether it is the same is (workload id, body hash): the same again is answered again
and queued once; another body under the same key is a conflict, and the first workload stands
(mission M2, M3).
"""

from __future__ import annotations

import msgspec

from services.admission.known import ACCEPTED, REJECTED, Verdict
from services.admission.memory import AdmissionMemory
from services.admission.parking import FIT_WAIT_MS, NAMES_WAIT_MS, PARKED_MAX, ParkedSubmission
from services.admission.teller import VerdictTeller
from shared.core.admission.admit import AdmissionRefusal, AdmittedWorkload, Doubt, admit
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Workload
from shared.core.model.priority_classes import on_shares
from shared.events import workloads
from shared.events.envelope import Received
from shared.runtime.handler import Change


class Judge:
    """Gives verdicts, each once, and remembers them."""

    def __init__(self, memory: AdmissionMemory, teller: VerdictTeller, cell: int) -> None:
        self._memory = memory
        self._known = memory.known
        self._parking = memory.parking
        self._teller = teller
        self._cell = cell

    def first_or_again(self, one: ParkedSubmission, message: Received) -> None:
        """Judge what is new; answer again what was judged, and refuse another body for it."""
        verdict = self._known.get(one.id)
        parked = None if verdict is not None else self._parking.get(one.id)
        if verdict is None and parked is None:
            self.judge(one, message)
            return
        known_hash = verdict.body_hash if verdict is not None else parked and parked.body_hash
        if known_hash != one.body_hash:
            self._conflict(one, message)
        elif verdict is not None:
            self._teller.counts["repeated"] += 1
            self._teller.answer(one, verdict.state, verdict.message, verdict.errors, message)

    def _conflict(self, one: ParkedSubmission, message: Received) -> None:
        text = "this idempotency key was used for another submission; that one stands"
        fact = workloads.SubmissionConflicted(workload_id=one.id, team=one.team, message=text)
        self._teller.emit(fact, one.id, message)
        self._teller.counts["conflicted"] += 1
        self._teller.answer(one, "conflicted", text, (), message)

    def judge(self, one: ParkedSubmission, cause: Received, *, final: bool = False) -> None:
        """Decide about a submission that has no verdict yet, or let it wait for facts."""
        verdict = admit(one.spec, one.team, self._memory.book.rules)
        if isinstance(verdict, AdmittedWorkload):
            most = self._memory.book.rules.teams[one.team].max_pending
            verdict = self._memory.alive.refusal(one.team, most) or verdict
        if isinstance(verdict, AdmissionRefusal):
            if not final and self._waits(one, verdict):
                return
            self._reject(one, verdict, cause)
        else:
            self._accept(one, verdict, cause)
        if one.due_ms:
            self._parking.remove(one.id)

    def _waits(self, one: ParkedSubmission, refused: AdmissionRefusal) -> bool:
        """Whether facts under way could turn the refusal; parks it then."""
        if refused.doubt is Doubt.NONE:
            return False
        if one.due_ms:
            return self._memory.now_ms < one.due_ms
        wait_ms = NAMES_WAIT_MS
        if refused.doubt is Doubt.FIT:
            wait_ms = self._memory.book.changed_at_ms + FIT_WAIT_MS - self._memory.now_ms
        if wait_ms <= 0 or len(self._parking) >= PARKED_MAX:
            return False
        due_ms = self._memory.now_ms + wait_ms
        self._parking.put(msgspec.structs.replace(one, doubt=refused.doubt, due_ms=due_ms))
        return True

    def _accept(self, one: ParkedSubmission, admitted: AdmittedWorkload, cause: Received) -> None:
        workload = Workload(
            id=one.id,
            team=one.team,
            queue=admitted.queue,
            cell=self._cell,
            priority=admitted.priority,
            spec=admitted.spec,
            submitted_at_ms=one.submitted_at_ms,
            namespace=admitted.namespace,
            service_account=admitted.service_account,
            pod_group=one.pod_group,
        )
        self._memory.alive.accept(one.team)
        fact = workloads.WorkloadQueued(
            workload=workload, body_hash=one.body_hash, door=one.door, by=one.by
        )
        self._teller.emit(fact, one.id, cause)
        shares = on_shares(admitted.spec)
        verdict = Verdict(one.team, one.body_hash, ACCEPTED, on_shares=shares)
        self._decided(one, verdict, State.QUEUED, cause)

    def _reject(self, one: ParkedSubmission, refused: AdmissionRefusal, cause: Received) -> None:
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
        self._teller.emit(fact, one.id, cause)
        verdict = Verdict(one.team, one.body_hash, REJECTED, refused.message, refused.errors)
        self._decided(one, verdict, State.REJECTED, cause)

    def _decided(
        self, one: ParkedSubmission, verdict: Verdict, state: State, cause: Received
    ) -> None:
        self._known.add(one.id, verdict)
        self._teller.counts[verdict.state] += 1
        self._teller.outcome.changes.append(
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
        self._teller.answer(one, verdict.state, verdict.message, verdict.errors, cause)
