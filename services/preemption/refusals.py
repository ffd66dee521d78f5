"""Which workloads are told of an obstacle: the first of a class, when the obstacle changes.

A search is made again and again, and its numbers move with all that runs. Told is only another
obstacle, or another time at which it may end, and none within a minute of the last. So there are
at most as many facts as searches, and of a crowd of equals one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from services.preemption.memory import PreemptionMemory
from services.preemption.records import ToldObstacle
from services.preemption.searching import Searching
from shared.core.preemption.eligibility.plan import NoEviction, Obstacle
from shared.core.preemption.victims import NEXT_STEP
from shared.events.plans import PreemptionRefused

QUIET_MS: Final = 60_000
"""After one was told no other is, unless what was told is over by now."""
NEARLY_MS: Final = 60_000
"""Times that lie no further apart are told as one."""
FOLLOWS: Final = NoEviction(
    obstacle=Obstacle.FITS, message="Others are going already, and leave room for it."
)


class Refusals:
    """Of one cell; what was told is in the memory, so a restart tells nothing twice."""

    def __init__(self, memory: PreemptionMemory, searching: Searching, cell: int) -> None:
        self._memory = memory
        self._searching = searching
        self._cell = cell
        self._told: list[PreemptionRefused] = []

    def note(self, workload_id: str, answer: NoEviction, now_ms: int) -> None:
        """What came of a search for the first of a class."""
        workload = self._memory.offers[workload_id].workload
        stand = self._memory.stands[workload_id]
        told = ToldObstacle(answer.obstacle.value, now_ms, answer.retry_at_ms)
        if not _is_new(stand.told, told):
            return
        self._memory.tell(workload_id, told)
        fact = PreemptionRefused(
            workload_id=workload_id,
            team=workload.team,
            queue=workload.queue,
            version=self._searching.stand(workload).version,
            obstacle=answer.obstacle,
            message=answer.message,
            next_step=NEXT_STEP[answer.obstacle],
            evidence=answer.evidence,
            flavor=answer.flavor,
            retry_at_ms=answer.retry_at_ms,
            cell=self._cell,
        )
        self._told.append(fact)

    def has_room(self, names: Iterable[str], now_ms: int) -> None:
        """They follow a plan that is under way."""
        for name in names:
            self.note(name, FOLLOWS, now_ms)

    def end(self) -> list[PreemptionRefused]:
        """All of this turn."""
        told, self._told = self._told, []
        return told


def _is_new(before: ToldObstacle | None, told: ToldObstacle) -> bool:
    """Whether it says something else; that no work need go is news only after an obstacle."""
    if before is None:
        return told.obstacle != Obstacle.FITS
    if told.obstacle != before.obstacle:
        over = told.obstacle == Obstacle.FITS or 0 < before.retry_at_ms <= told.at_ms
        return over or _is_quiet(before, told)
    moved_ms = abs(told.retry_at_ms - before.retry_at_ms)
    return moved_ms > NEARLY_MS and _is_quiet(before, told)


def _is_quiet(before: ToldObstacle, told: ToldObstacle) -> bool:
    return told.at_ms >= before.at_ms + QUIET_MS
