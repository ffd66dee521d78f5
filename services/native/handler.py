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
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import structlog

from services.native import metrics
from services.native.group_notices import with_notice_of_group
from services.native.judging import GroupJudge, GroupJudgement
from services.native.messages import SERVICE, GroupForgotten, as_message, cancellation, submission
from services.native.noticing import Noticing
from services.native.picture import NativePicture
from services.native.records import GroupRecord
from services.native.submitted import SubmittedGroups
from shared.events.envelope import Received
from shared.events.topics import (
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.native import (
    GroupChanged,
    NativeHeard,
    NativeInterrupted,
    NativeNews,
    NativeNotice,
    NativeSource,
    PodNotices,
    PodsListed,
)
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome

GROUPS_PER_BATCH: Final = 500
DELETED_MS: Final = 5_000
"""After its pods and its object a group is cancelled: by then it is told if they ended well."""

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
        self._forget()

    def _forget(self) -> None:
        self._interrupted = set[str]()
        """Pods and kinds of groups of which nothing is heard now."""
        self._picture = NativePicture()
        self._submitted = SubmittedGroups(
            picture=self._picture, gone_ms=self._gone_ms, cell=self._cell, mark=self._mark
        )
        self._judge = GroupJudge(
            directory=self._submitted.directory,
            pool_labels=self._pool_labels,
            gone_ms=self._gone_ms,
        )
        self._due_ms: dict[str, int] = {}
        self._gone_since_ms: dict[str, int] = {}
        self._without_object = set[str]()
        """Submitted groups whose object was deleted: nothing makes pods of them any more."""

    @property
    def ready(self) -> bool:
        """Whether all pods were told, and pods and every kind of group are being listened to."""
        return self._picture.listed and not self._interrupted

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Who the teams are, and what becomes of workloads."""
        cell = (self._cell,)
        facts = (QUEUE_FACTS, QUOTA_FACTS, WORKLOAD_FACTS)
        return ((ORGANISATION_FACTS, (0,)), *((topic, cell) for topic in facts))

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._submitted.actions

    async def load(self, reader: Reader) -> None:
        """Forget everything, read what was submitted, and listen anew."""
        await self.suspend()
        self._forget()
        await self._submitted.load(reader)
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
            self._interrupted.add(news.kind)
            metrics.INTERRUPTIONS.inc()
            log.warning("the API server is not heard", problem=news.problem)
            return
        if isinstance(news, NativeHeard):
            self._interrupted.discard(news.kind)
            return
        first = not self._picture.listed
        changed = self._picture.hear(news)
        if isinstance(news, GroupChanged):
            self._without_object -= changed
            if news.told is None:
                self._without_object |= changed & self._submitted.by_key.keys()
        if isinstance(news, PodsListed):
            self._noticing.keep_only(self._picture.uids())
        if first and self._picture.listed:
            changed |= {*self._picture.pods.groups, *self._submitted.by_key}
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
        metrics.GROUPS.set(len(self._submitted.by_key))
        return [one for one in found if one is not None]

    def next_due_ms(self) -> int | None:
        """When the next group is due."""
        if not self._picture.listed:
            return None
        return min(self._due_ms.values(), default=None)

    def _judged(self, key: str, now_ms: int) -> Received | None:
        del self._due_ms[key]
        members, record = self._picture.pods.members(key), self._submitted.by_key.get(key)
        if members or record is None:
            self._gone_since_ms.pop(key, None)
        else:
            self._gone_since_ms.setdefault(key, now_ms)
        found = self._judge.judge(
            key,
            members,
            record,
            self._picture,
            gone_since_ms=self._gone_since(key, now_ms),
            now_ms=now_ms,
        )
        told = self._picture.told.get(key)
        self._noticing.tell(with_notice_of_group(key, told, members, found.notices))
        if found.again_ms is not None:
            self._due_ms[key] = found.again_ms
        return self._message(key, found, record, now_ms)

    def _gone_since(self, key: str, now_ms: int) -> int:
        """When its pods went; where its object is deleted, too, that counts as long before."""
        spared_ms = max(0, self._gone_ms - DELETED_MS) if key in self._without_object else 0
        return self._gone_since_ms.get(key, now_ms) - spared_ms

    def _message(
        self, key: str, found: GroupJudgement, record: GroupRecord | None, now_ms: int
    ) -> Received | None:
        if found.submit is not None:
            team, spec = found.submit
            payload: Wire = submission(
                key,
                team,
                spec,
                restart=self._submitted.next_restart(key),
                first_uid=self._picture.waiting(key)[0],
                submitted_at_ms=self._submitted.take_place(key, now_ms),
            )
        elif found.cancel and record is not None:
            payload = cancellation(record)
        elif found.forget:
            self._gone_since_ms.pop(key, None)
            self._without_object.discard(key)
            payload = GroupForgotten(key=key)
        else:
            return None
        return as_message(payload, key, now_ms, self._cell)

    # ── what is decided ──

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Note what was submitted and what became of it; tell admission."""
        return self._submitted.decide(messages, now_ms)
