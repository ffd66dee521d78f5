"""Nominations that placement has not answered, and for how long each is waited for.

Placement tells only some of many equal workloads that they must wait. So a nomination that nobody
answers counts as use for `ANSWER_WAIT_MS` and no longer, and nothing can be lost for good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from shared.core.nomination.pending import Pending, Phase

ANSWER_WAIT_MS: Final = 5_000
ANSWERS_MAX: Final = 1_000
"""Overdue answers that one message gives up."""


class Answers:
    """Unanswered nominations in order of time."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Pending, int]] = deque()
        """(time, workload, nomination); time 0: before the last restart."""

    def nominated(self, pending: Pending, nomination: int, now_ms: int) -> None:
        """Wait for the answer to a nomination; `now_ms` 0: since nobody knows when."""
        self._waiting.append((now_ms, pending, nomination))

    def begin_waiting(self, now_ms: int) -> None:
        """After a restart the wait for answers begins anew."""
        waiting = self._waiting
        while waiting and not waiting[0][0]:
            _, pending, nomination = waiting.popleft()
            waiting.append((now_ms, pending, nomination))

    def due_ms(self) -> int | None:
        """When the oldest nomination without an answer is overdue; forgets the answered."""
        waiting = self._waiting
        while waiting:
            since_ms, pending, nomination = waiting[0]
            if pending.phase is Phase.OFFERED and pending.nomination == nomination:
                return since_ms + ANSWER_WAIT_MS
            waiting.popleft()
        return None

    def overdue(self, now_ms: int) -> Iterator[tuple[Pending, int]]:
        """Workloads with the nomination that is waited for no more, `ANSWERS_MAX` at most."""
        for _ in range(ANSWERS_MAX):
            due_ms = self.due_ms()
            if due_ms is None or due_ms > now_ms:
                return
            _, pending, nomination = self._waiting.popleft()
            yield pending, nomination
