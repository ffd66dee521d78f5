"""The attempts in work, which of them are to be looked at now, and which at a later time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from services.binder.gang import BIND_DEADLINE_MS, SETTLE_MS, BoundGang
from services.binder.gang_state import Key, PodsGoal

LOOK_SECONDS_MAX: Final = 1.0
LOOKS_MAX: Final = 4_000
"""Gangs looked at in one go, about 5 ms; between two goes the loop of the service turns."""


class Gangs:
    """Gangs by key. Each is looked at once for any number of things that happened to it.

    Gangs of which something was sent come before those that only wait for their first request:
    under a backlog each is bound soon after its first pod was created.
    """

    def __init__(self, gangs: Iterable[BoundGang]) -> None:
        self.by_key = {gang.key: gang for gang in gangs}
        self.wake = asyncio.Event()
        self._begun_looks: dict[Key, BoundGang] = {}
        self._fresh_looks: dict[Key, BoundGang] = {}
        for gang in self.by_key.values():
            self._enqueue(gang)
        self._settling: deque[BoundGang] = deque()
        self._deadlines: deque[tuple[int, BoundGang]] = deque()
        self._later: list[tuple[int, Key]] = []

    def look_at(self, gang: BoundGang) -> None:
        """Something happened to it."""
        self._enqueue(gang)
        self.wake.set()

    def _enqueue(self, gang: BoundGang) -> None:
        looks = self._fresh_looks if gang.is_fresh() else self._begun_looks
        looks[gang.key] = gang

    def take(self) -> list[BoundGang]:
        """Those to look at, begun ones first, then the longest waiting; `LOOKS_MAX` at most."""
        taken = _pop(self._begun_looks, LOOKS_MAX)
        return taken + _pop(self._fresh_looks, LOOKS_MAX - len(taken))

    async def wait(self, now_ms: int) -> None:
        """Until there is one to look at, or a timer has run out."""
        if self._begun_looks or self._fresh_looks:
            await asyncio.sleep(0)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_timer(now_ms)):
                    await self.wake.wait()
        self.wake.clear()

    # ── timers ───────────────────────────────────────────────────────────────

    def begin(self, gang: BoundGang, now_ms: int) -> None:
        """An attempt that is to be bound, or to grow, has a deadline from its first request on.

        The time before is the binder's own: no node is to blame for it.
        """
        if gang.goal is PodsGoal.RUN and not gang.deadline_ms and (not gang.told or gang.resizing):
            gang.deadline_ms = now_ms + BIND_DEADLINE_MS
            self._deadlines.append((gang.deadline_ms, gang))

    def settle(self, gang: BoundGang, now_ms: int) -> None:
        """All pods are bound: soon they run, or it is told that they are bound."""
        gang.settle_at_ms = now_ms + SETTLE_MS
        self._settling.append(gang)

    def look_at_later(self, gang: BoundGang, at_ms: int) -> None:
        """Something may be sent then: once more, or again."""
        heappush(self._later, (at_ms, gang.key))

    def run_out(self, now_ms: int) -> None:
        """Gangs that are due are to be looked at."""
        while self._settling and self._settling[0].settle_at_ms <= now_ms:
            self._look_again(self._settling.popleft().key)
        while self._later and self._later[0][0] <= now_ms:
            self._look_again(heappop(self._later)[1])
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            gang = self._deadlines.popleft()[1]
            gang.expire(now_ms)
            self._look_again(gang.key)

    def _look_again(self, key: Key) -> None:
        gang = self.by_key.get(key)
        if gang is not None:
            self._enqueue(gang)

    def _seconds_to_timer(self, now_ms: int) -> float:
        next_ms = now_ms + round(LOOK_SECONDS_MAX * 1000)
        if self._settling:
            next_ms = min(next_ms, self._settling[0].settle_at_ms)
        if self._later:
            next_ms = min(next_ms, self._later[0][0])
        return max(0.0, (next_ms - now_ms) / 1000)


def _pop(looks: dict[Key, BoundGang], at_most: int) -> list[BoundGang]:
    taken = list(islice(looks.values(), at_most))
    if len(taken) == len(looks):
        looks.clear()
    else:
        for gang in taken:
            del looks[gang.key]
    return taken
