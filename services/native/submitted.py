"""The groups that were submitted, and what becomes of their workloads: rows, and what is sent on.

A group is known by its key, its workload by the id that it was submitted under last. A row changes
in the unit in which the news of it is consumed, and its group is marked, to be judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from services.native import metrics, records
from services.native.judging import REJECTED, REQUEUED
from services.native.messages import GroupForgotten
from services.native.picture import NativePicture
from services.native.records import Directory, GroupRecord, GroupState
from services.native.vacated import VacatedPlaces
from shared.core.admission import remedy
from shared.core.admission.admit import AdmissionRefusal
from shared.core.admission.standing import OF_STATE, with_next
from shared.core.native import PodsByGroup
from shared.events import organisation, quotas, workloads
from shared.events.envelope import Received
from shared.events.topics import NATIVE_COMMANDS
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome


class SubmittedGroups:
    """See the module. `by_key` are the rows."""

    def __init__(
        self,
        *,
        picture: NativePicture,
        gone_ms: int,
        cell: int,
        mark: Callable[[Iterable[str]], None],
    ) -> None:
        """`gone_ms`: how long a place is kept for the pod that follows; `mark`: judge these."""
        self.directory = Directory()
        self.by_key: dict[str, GroupRecord] = {}
        self._picture, self._cell, self._mark = picture, cell, mark
        self._vacated = VacatedPlaces(gone_ms)
        self._keys: dict[str, str] = {}
        """Groups by the workload that each was submitted as last."""
        self._changed: dict[str, None] = {}
        self._outcome, self._now_ms = Outcome(), 0
        self.actions: Mapping[type[Wire], Callable[[Received, Any], None]] = {
            workloads.SubmitWorkload: self._submitted,
            workloads.CancelWorkload: self._cancelled,
            GroupForgotten: self._forgotten,
            workloads.WorkloadRejected: self._rejected,
            workloads.PlacementRefused: self._waits,
            quotas.QuotaRefused: self._waits,
            workloads.WorkloadEvicted: self._evicted,
            workloads.WorkloadRequeued: self._waits_again,
            workloads.WorkloadHeld: self._waits_again,
            workloads.WorkloadReleased: self._waits_again,
            workloads.WorkloadSucceeded: self._over,
            workloads.WorkloadFailed: self._over,
            workloads.WorkloadCancelled: self._over,
            organisation.TeamApplied: self._documented,
            organisation.PriorityClassApplied: self._documented,
            organisation.DocumentDeleted: self._documented,
        }
        """By the payload that each is for."""

    async def load(self, reader: Reader) -> None:
        """Read the rows, once."""
        await self.directory.load(reader)
        self.by_key = await records.load_groups(reader, self._cell)
        self._keys = {one.workload_id: key for key, one in self.by_key.items()}

    def next_restart(self, key: str) -> int:
        """The number of the next submission of a group."""
        record = self.by_key.get(key)
        return 0 if record is None else record.restart + 1

    def take_place(self, key: str, now_ms: int) -> int:
        """Now, or that of the evicted pod that a lone pod follows, or of the first part."""
        whole = PodsByGroup.whole_of(key)
        if whole != key:
            return min(self._submitted_parts(whole), default=now_ms)
        owner = self._picture.owner_of_lone(key)
        return self._vacated.take(owner, now_ms) if owner else now_ms

    def _submitted_parts(self, whole: str) -> list[int]:
        """When parts of a whole were submitted that are not over. O(groups)."""
        parts = (one for key, one in self.by_key.items() if PodsByGroup.whole_of(key) == whole)
        return [
            one.submitted_at_ms
            for one in parts
            if one.state is GroupState.SUBMITTED and one.submitted_at_ms
        ]

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Note what was submitted and what became of it; tell admission."""
        self._outcome, self._now_ms, self._changed = Outcome(), now_ms, {}
        for message in messages:
            action = self.actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
        changed = [self.by_key[key] for key in self._changed if key in self.by_key]
        if changed:
            self._outcome.writes.append(records.put_groups(changed, self._cell))
        self._outcome.writes += self.directory.writes()
        return self._outcome

    def _submitted(self, message: Received, command: workloads.SubmitWorkload) -> None:
        key = command.pod_group
        before = self.by_key.get(key)
        if before is not None:
            self._keys.pop(before.workload_id, None)
        self.by_key[key] = GroupRecord(
            key=key,
            workload_id=command.workload_id,
            team=command.team,
            restart=self.next_restart(key),
            state=GroupState.SUBMITTED,
            uids=self._picture.waiting(key)[: sum(one.count for one in command.spec.pod_sets)],
            changed_at_ms=self._now_ms,
            submitted_at_ms=command.submitted_at_ms,
        )
        self._keys[command.workload_id] = key
        self._changed[key] = None
        metrics.SUBMITTED.inc()
        self._emit(message, command.workload_id)

    def _cancelled(self, message: Received, command: workloads.CancelWorkload) -> None:
        if command.workload_id in self._keys:
            self._emit(message, command.workload_id)

    def _forgotten(self, message: Received, fact: GroupForgotten) -> None:
        del message
        record = self.by_key.pop(fact.key, None)
        if record is not None:
            self._keys.pop(record.workload_id, None)
            self._outcome.writes.append(records.delete_groups([fact.key]))

    def _rejected(self, message: Received, fact: workloads.WorkloadRejected) -> None:
        del message
        refusal = AdmissionRefusal(errors=fact.errors)
        told = with_next(refusal.message, remedy.next_step(refusal.errors))
        self._became(fact.workload_id, GroupState.REJECTED, REJECTED, told)

    def _waits(
        self, message: Received, fact: workloads.PlacementRefused | quotas.QuotaRefused
    ) -> None:
        """Why it waits now: the sentence that `muster why` tells, with the next step."""
        del message
        told = with_next(fact.message, fact.next_step)
        self._became(fact.workload_id, GroupState.SUBMITTED, fact.reason.value, told)

    def _evicted(self, message: Received, fact: workloads.WorkloadEvicted) -> None:
        """The pod that follows a lone one keeps its place, as a group that comes back does."""
        del message
        record = self._record_of(fact.workload_id)
        owner = self._picture.owner_of_lone(record.key) if record is not None else ""
        if record is not None and owner and record.submitted_at_ms:
            self._vacated.leave(owner, record.submitted_at_ms, self._now_ms)

    def _waits_again(self, message: Received, fact: workloads.WorkloadFact) -> None:
        """Evicted, held or released: pods that are there, or are made anew, are told so."""
        del message
        reason, sentence, next_step = OF_STATE[fact.state]
        requeued = isinstance(fact, workloads.WorkloadRequeued)
        told = with_next(fact.message or sentence, next_step)
        code = REQUEUED if requeued else reason.value
        self._became(fact.workload_id, GroupState.SUBMITTED, code, told)

    def _over(self, message: Received, fact: workloads.WorkloadFact) -> None:
        del message
        cancelled = isinstance(fact, workloads.WorkloadCancelled)
        self._became(fact.workload_id, GroupState.CANCELLED if cancelled else GroupState.ENDED)

    def _became(
        self, workload_id: str, state: GroupState, reason: str = "", message: str = ""
    ) -> None:
        record = self._record_of(workload_id)
        if record is None or record.state is not GroupState.SUBMITTED:
            return
        record.state, record.reason, record.message = state, reason, message
        record.changed_at_ms = self._now_ms
        self._changed[record.key] = None
        self._mark((record.key,))

    def _record_of(self, workload_id: str) -> GroupRecord | None:
        """Of the group that was submitted as this last."""
        key = self._keys.get(workload_id)
        return self.by_key[key] if key is not None else None

    def _documented(self, message: Received, document: Any) -> None:  # noqa: ANN401  # three alike
        del message
        self.directory.hear(document)
        self._mark(self._picture.pods.groups)

    def _emit(self, message: Received, subject: str) -> None:
        self._outcome.emits.append(
            Emit(
                payload=message.event.payload,
                topic=NATIVE_COMMANDS,
                subject=subject,
                cause=message,
                partition=self._cell,
            )
        )
