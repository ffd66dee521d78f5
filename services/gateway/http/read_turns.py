"""Reads wait their turn, so that one team's reads leave the others their answers.

A read spends tokens of its key and of its team (`http/read_cost.py`). While they lack it waits, in
the order of coming; where that would take too long it is refused. A team has only some reads in
hand at once, because all teams share few connections to the database. Operators' keys count as
one team. A refusal comes no faster than a turn would: a client that asks again at once gains
nothing by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from services.gateway.http.authorisation import Subject
from services.gateway.http.metrics import READ_WAIT_SECONDS, READS_REFUSED
from services.gateway.http.problems import Problem, too_many
from services.gateway.http.rate import Rate
from services.gateway.http.read_cost import ReadCost, ReadLimits
from shared.ports.clock import Clock

BURST_SECONDS: Final = 5.0
WAIT_SECONDS_MAX: Final = 2.0
"""For tokens; then 429."""
TURN_SECONDS_MAX: Final = 5.0
"""For one of the reads in hand; then 429."""
REFUSAL_SECONDS: Final = 1.0
WAITING_MAX: Final = 500
"""Reads of one team that wait; further ones lose their connection."""
INSTEAD: Final = "read fewer rows (`limit`), or follow events instead of asking again"


@dataclass(slots=True)
class _Places:
    """The reads of one team that are in hand or wait for that."""

    free: asyncio.Semaphore
    users: int = 0


class ReadTurns:
    """The reads of one process."""

    def __init__(self, limits: ReadLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._of_key = Rate(limits.key_tokens, BURST_SECONDS)
        self._of_team = Rate(limits.team_tokens, BURST_SECONDS)
        self._waiting: Counter[str] = Counter()
        self._places: dict[str, _Places] = {}

    @contextlib.asynccontextmanager
    async def turn(self, subject: Subject, cost: ReadCost) -> AsyncIterator[None]:
        """Wait for tokens and for a place among the team's reads, which the block holds.

        Raises:
            Problem: 429 with the limit, and when to try again.
        """
        began = self._clock.monotonic_seconds()
        with self._counted(subject.team):
            await self._pay(subject, cost.tokens)
            places = None if cost.is_stream else await self._place(subject.team)
        READ_WAIT_SECONDS.observe(self._clock.monotonic_seconds() - began)
        try:
            yield
        finally:
            if places is not None:
                self._leave(subject.team, places)

    @contextlib.contextmanager
    def _counted(self, team: str) -> Iterator[None]:
        if self._waiting[team] >= WAITING_MAX:
            READS_REFUSED.labels("waiting").inc()
            problem = too_many(f"{WAITING_MAX} reads of {_whose(team)} wait already; {INSTEAD}")
            problem.closes = True
            raise problem
        self._waiting[team] += 1
        try:
            yield
        finally:
            self._waiting[team] -= 1
            if not self._waiting[team]:
                del self._waiting[team]

    async def _pay(self, subject: Subject, tokens: int) -> None:
        """Spend tokens of key and team, and wait until they are there."""
        now = self._clock.monotonic_seconds()
        buckets = ((self._of_key, subject.name), (self._of_team, subject.team))
        waits = [bucket.wait_seconds(name, now, tokens) for bucket, name in buckets]
        wait_seconds = max(waits)
        if wait_seconds > WAIT_SECONDS_MAX:
            limit = "key" if waits[0] == wait_seconds else "team"
            await asyncio.sleep(REFUSAL_SECONDS)
            raise self._too_fast(limit, subject, tokens, wait_seconds)
        for bucket, name in buckets:
            bucket.spend(name, now, tokens)
        if wait_seconds:
            await asyncio.sleep(wait_seconds)

    def _too_fast(self, limit: str, subject: Subject, tokens: int, wait_seconds: float) -> Problem:
        READS_REFUSED.labels(limit).inc()
        if limit == "key":
            most, whose = self._limits.key_tokens, "a key"
        else:
            most, whose = self._limits.team_tokens, _whose(subject.team)
        again_seconds = max(1, math.ceil(wait_seconds - REFUSAL_SECONDS))
        return too_many(
            f"reads of {whose} may cost {most} tokens a second, and this one costs {tokens}: try"
            f" again in {again_seconds} s, {INSTEAD}",
            again_seconds,
        )

    async def _place(self, team: str) -> _Places | None:
        """One of the places of a team; None where there is no limit."""
        if not self._limits.in_hand:
            return None
        places = self._places.get(team)
        if places is None:
            places = self._places[team] = _Places(asyncio.Semaphore(self._limits.in_hand))
        places.users += 1
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await places.free.acquire()
        except BaseException as error:
            self._forget(team, places)
            if isinstance(error, TimeoutError):
                READS_REFUSED.labels("in-hand").inc()
                raise self._none_free(team) from error
            raise
        return places

    def _none_free(self, team: str) -> Problem:
        return too_many(
            f"{_whose(team)} has {self._limits.in_hand} reads in hand, the most at once, and none"
            f" ended in {TURN_SECONDS_MAX:.0f} s: try again in 1 s with fewer at once"
        )

    def _leave(self, team: str, places: _Places) -> None:
        places.free.release()
        self._forget(team, places)

    def _forget(self, team: str, places: _Places) -> None:
        places.users -= 1
        if not places.users:
            del self._places[team]


def _whose(team: str) -> str:
    return f"team {team}" if team else "all operators"
