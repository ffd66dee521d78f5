"""The native service as the loop sees it: news of pods in, submissions and cancellations out.

```
API server -> source -> NativePicture -> groups that changed -> due -> judge -> local message
local message -> decide -> row of the group + SubmitWorkload or CancelWorkload
verdicts and ends of workloads -> decide -> row of the group -> judged again
```
A group is submitted once for its pods, in the unit that writes its row: a restart submits nothing
twice, and what changed meanwhile is seen in the list that it begins with. Pods are bound by the
binder, which finds them by the group's key (`SubmitWorkload.pod_group`). Nothing is decided before
all pods were listed, so that an API server that does not answer cancels nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from services.native import metrics, records
from services.native.group_notices import with_notice_of_group
from services.native.judging import REJECTED, REQUEUED, GroupJudge, GroupJudgement
from services.native.messages import SERVICE, GroupForgotten, as_message, cancellation, submission
from services.native.noticing import Noticing
from services.native.picture import NativePicture
from services.native.records import Directory, GroupRecord, GroupState
from services.native.vacated import VacatedPlaces
from shared.core.admission import remedy
from shared.core.admission.admit import AdmissionRefusal
from shared.core.admission.standing import OF_STATE, with_next
from shared.core.native import PodsByGroup, may_come_back
from shared.events import organisation, quotas, workloads
from shared.events.envelope import Received
from shared.events.topics import (
    NATIVE_COMMANDS,
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.native import (
    NativeInterrupted,
    NativeNews,
    NativeNotice,
    NativeSource,
    PodNotices,
    PodsListed,
)
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome

GROUPS_PER_BATCH: Final = 500

log = structlog.get_logger(SERVICE)


class NativeHandler:
    """See the module. One handler serves one cell."""

    name = SERVICE

    def __init__(
        self,
        *,
        source: NativeSource,
        notices: PodNotices,
        clock: Clock,
        pool_labels: Collection[str],
        gone_ms: int,
        cell: int = 0,
    ) -> None:
        self.on_wake: Callable[[], None] = lambda: None
        """Set by the loop: called when a group is due, so that it polls at once."""
        self._source, self._clock, self._cell = source, clock, cell
        self._pool_labels, self._gone_ms = tuple(pool_labels), gone_ms
        self._noticing = Noticing(notices, self._is_timely)
        self._following: asyncio.Task[None] | None = None
        self._interrupted = False
        self._actions: Mapping[type[Wire], Callable[[Received, Any], None]] = {
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
        self._forget()

    def _forget(self) -> None:
        self._picture, self._directory = NativePicture(), Directory()
        self._judge = GroupJudge(
            directory=self._directory, pool_labels=self._pool_labels, gone_ms=self._gone_ms
        )
        self._vacated = VacatedPlaces(self._gone_ms)
        self._groups: dict[str, GroupRecord] = {}
        self._keys: dict[str, str] = {}
        """Groups by the workload that each was submitted as last."""
        self._due_ms: dict[str, int] = {}
        self._gone_since_ms: dict[str, int] = {}
        self._changed: dict[str, None] = {}
        self._outcome, self._now_ms = Outcome(), 0

    @property
    def ready(self) -> bool:
        """Whether the API server has told all pods and is being listened to."""
        return self._picture.listed and not self._interrupted

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Who the teams are, and what becomes of workloads."""
        cell = (self._cell,)
        facts = (QUEUE_FACTS, QUOTA_FACTS, WORKLOAD_FACTS)
        return ((ORGANISATION_FACTS, (0,)), *((topic, cell) for topic in facts))

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Forget everything, read what was submitted, and listen anew."""
        await self.suspend()
        self._forget()
        await self._directory.load(reader)
        self._groups = await records.load_groups(reader, self._cell)
        self._keys = {one.workload_id: key for key, one in self._groups.items()}
        self._interrupted = False
        self._noticing.start()
        self._following = asyncio.create_task(self._source.follow(self._hear))

    async def suspend(self) -> None:
        """Listen and write no more until the next `load`."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            await asyncio.wait([following])  # what ended it is raised by `due`, not here
            await self._noticing.stop()
        await self._source.close()

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Nothing to look up."""

    # ── what is heard ──

    def _hear(self, news: NativeNews) -> None:
        if isinstance(news, NativeInterrupted):
            self._interrupted = True
            metrics.INTERRUPTIONS.inc()
            log.warning("the API server is not heard", problem=news.problem)
            return
        self._interrupted = False
        first = not self._picture.listed
        changed = self._picture.hear(news)
        if isinstance(news, PodsListed):
            self._noticing.keep_only(self._picture.uids())
        if first and self._picture.listed:
            changed |= {*self._picture.pods.groups, *self._groups}
        self._mark(changed)

    def _mark(self, keys: Iterable[str]) -> None:
        now_ms = self._clock.now_ms()
        for key in keys:
            self._due_ms[key] = now_ms
        if self._picture.listed:
            self.on_wake()

    def _is_timely(self, notice: NativeNotice) -> bool:
        return self._picture.is_timely(notice)

    # ── what is due ──

    def due(self, now_ms: int) -> Sequence[Received]:
        """What follows for groups that changed; raises what ended the listening, if it ended."""
        if self._following is not None and self._following.done():
            self._following.result()
        if not self._picture.listed:
            return ()
        keys = [key for key, at_ms in self._due_ms.items() if at_ms <= now_ms]
        found = [self._judged(key, now_ms) for key in keys[:GROUPS_PER_BATCH]]
        metrics.PODS.set(len(self._picture.pods))
        metrics.GROUPS.set(len(self._groups))
        return [one for one in found if one is not None]

    def next_due_ms(self) -> int | None:
        """When the next group is due."""
        if not self._picture.listed:
            return None
        return min(self._due_ms.values(), default=None)

    def _judged(self, key: str, now_ms: int) -> Received | None:
        del self._due_ms[key]
        members, record = self._picture.pods.members(key), self._groups.get(key)
        if members:
            self._gone_since_ms.pop(key, None)
        else:
            self._gone_since_ms.setdefault(key, now_ms)
        found = self._judge.judge(
            key,
            members,
            record,
            self._picture,
            gone_since_ms=self._gone_since_ms.get(key, now_ms),
            now_ms=now_ms,
        )
        told = self._picture.told.get(key)
        self._noticing.tell(with_notice_of_group(key, told, members, found.notices))
        if found.again_ms is not None:
            self._due_ms[key] = found.again_ms
        return self._message(key, found, record, now_ms)

    def _message(
        self, key: str, found: GroupJudgement, record: GroupRecord | None, now_ms: int
    ) -> Received | None:
        if found.submit is not None:
            team, spec = found.submit
            payload: Wire = submission(
                key,
                team,
                spec,
                restart=_next_restart(record),
                first_uid=self._waiting(key)[0],
                submitted_at_ms=self._place(key, now_ms),
            )
        elif found.cancel and record is not None:
            payload = cancellation(record)
        elif found.forget:
            payload = GroupForgotten(key=key)
        else:
            return None
        return as_message(payload, key, now_ms, self._cell)

    def _place(self, key: str, now_ms: int) -> int:
        """Now, or that of the evicted pod that a lone pod follows, or of the first part."""
        whole = PodsByGroup.whole_of(key)
        if whole != key:
            return min(self._submitted_parts(whole), default=now_ms)
        owner = self._owner_of_lone(key)
        return self._vacated.take(owner, now_ms) if owner else now_ms

    def _submitted_parts(self, whole: str) -> list[int]:
        """When parts of a whole were submitted that are not over. O(groups)."""
        parts = (one for key, one in self._groups.items() if PodsByGroup.whole_of(key) == whole)
        return [
            one.submitted_at_ms
            for one in parts
            if one.state is GroupState.SUBMITTED and one.submitted_at_ms
        ]

    def _owner_of_lone(self, key: str) -> str:
        """The owner that makes another pod in place of a lone one; empty: there is none."""
        if may_come_back(key):
            return ""
        return next((one.owner_uid for one in self._picture.pods.members(key)), "")

    def _waiting(self, key: str) -> tuple[str, ...]:
        """Uids of the pods of a group that can be bound, in order of rank."""
        return tuple(one.uid for one in self._picture.pods.members(key) if one.waits)

    # ── what is decided ──

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Note what was submitted and what became of it; tell admission."""
        self._outcome, self._now_ms, self._changed = Outcome(), now_ms, {}
        for message in messages:
            action = self._actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
        changed = [self._groups[key] for key in self._changed if key in self._groups]
        if changed:
            self._outcome.writes.append(records.put_groups(changed, self._cell))
        self._outcome.writes += self._directory.writes()
        return self._outcome

    def _submitted(self, message: Received, command: workloads.SubmitWorkload) -> None:
        key = command.pod_group
        self._groups[key] = GroupRecord(
            key=key,
            workload_id=command.workload_id,
            team=command.team,
            restart=_next_restart(self._groups.get(key)),
            state=GroupState.SUBMITTED,
            uids=self._waiting(key)[: sum(one.count for one in command.spec.pod_sets)],
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
        record = self._groups.pop(fact.key, None)
        if record is not None:
            self._keys.pop(record.workload_id, None)
            self._gone_since_ms.pop(fact.key, None)
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
        key = self._keys.get(fact.workload_id)
        record = self._groups.get(key) if key is not None else None
        owner = self._owner_of_lone(record.key) if record is not None else ""
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
        key = self._keys.get(workload_id)
        record = self._groups.get(key) if key is not None else None
        if key is None or record is None or record.state is not GroupState.SUBMITTED:
            return
        record.state, record.reason, record.message = state, reason, message
        record.changed_at_ms = self._now_ms
        self._changed[key] = None
        self._mark((key,))

    def _documented(self, message: Received, document: Any) -> None:  # noqa: ANN401  # three alike
        del message
        self._directory.hear(document)
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


def _next_restart(record: GroupRecord | None) -> int:
    """The number of the next submission of a group."""
    return 0 if record is None else record.restart + 1
