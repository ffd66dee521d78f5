"""Writes what pods and PodGroups are told: the newest of each, each sentence once, a few a second.

A new reason goes first: one more pod is told why it waits while thousands wait for other numbers.

What is written says why they wait, which is seen anew after a restart: nothing of it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from services.native import metrics
from shared.ports.errors import Transient
from shared.ports.native import NativeNotice, PodNotices

WRITES_A_SECOND_MAX: Final = 20
"""Requests to the API server: a notice takes two."""
PAUSE_SECONDS: Final = 2 / WRITES_A_SECOND_MAX
RETRY_SECONDS: Final = 2.0

log = structlog.get_logger("native")


class Noticing:
    """Notices that wait, by uid, in order; `start` and `stop` may follow each other."""

    def __init__(self, notices: PodNotices, is_timely: Callable[[NativeNotice], bool]) -> None:
        """`is_timely`: asked before each is written, as it may have waited for minutes."""
        self._notices, self._is_timely = notices, is_timely
        self._new: dict[str, NativeNotice] = {}
        """Of another reason than the last, or the first at all."""
        self._changed: dict[str, NativeNotice] = {}
        """Of the same reason, with other words."""
        self._written: dict[str, tuple[str, str]] = {}
        """By uid: reason and message."""
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Write from now on."""
        self._task = asyncio.create_task(self._run(), name="notices")

    async def stop(self) -> None:
        """Write no more until `start`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._new.clear()
        self._changed.clear()
        await self._notices.close()

    def tell(self, notices: Sequence[NativeNotice]) -> None:
        """These are to be written, unless they stand there."""
        for one in notices:
            reason, message = self._written.get(one.uid, ("", ""))
            self._put(self._new, one, waits=one.reason != reason)
            self._put(self._changed, one, waits=one.reason == reason and one.message != message)

    def _put(self, waiting: dict[str, NativeNotice], one: NativeNotice, *, waits: bool) -> None:
        if waits:
            waiting[one.uid] = one
            self._some.set()
        else:
            waiting.pop(one.uid, None)

    def keep_only(self, uids: Iterable[str]) -> None:
        """Forget what was told to objects that are no more."""
        kept = set(uids)
        self._written = {uid: told for uid, told in self._written.items() if uid in kept}

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while waiting := self._new or self._changed:
                notice = waiting.pop(next(iter(waiting)))
                stands = self._written.get(notice.uid) == (notice.reason, notice.message)
                if self._is_timely(notice) and not stands:
                    await self._write(notice)

    async def _write(self, notice: NativeNotice) -> None:
        # What stands there is unknown from here on: whatever is told meanwhile waits its turn,
        # even the sentence that stood there before.
        self._written.pop(notice.uid, None)
        try:
            await self._notices.write(notice)
        except Transient as error:
            log.warning("a pod or its group is not told", name=notice.name, error=str(error))
            self._new.setdefault(notice.uid, notice)
            await asyncio.sleep(RETRY_SECONDS)
            return
        self._written[notice.uid] = (notice.reason, notice.message)
        metrics.NOTICES.labels(notice.reason).inc()
        await asyncio.sleep(PAUSE_SECONDS)
