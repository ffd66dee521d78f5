"""Nominations that placement has not answered, and for how long each is waited for.

Placement tells only some of many equal workloads that they must wait. So a nomination that nothing
answers counts as use for `ANSWER_WAIT_MS` and no longer, once a later one was answered: placement
reads them in order. Before that it is only late, and to nominate others meanwhile would make it
later still. After `SILENCE_MS` even that ends, and nothing can be lost for good.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from shared.core.queueing.nomination import Pending, Phase

ANSWER_WAIT_MS: Final = 5_000
SILENCE_MS: Final = 120_000
ANSWERS_MAX: Final = 1_000
"""Overdue answers that one message gives up."""


class Answers:
    """Unanswered nominations in order of time."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[int, Pending, int]] = OrderedDict()
        """(time, workload, nomination) by workload; time 0: before the last restart."""
        self._reached_ms = 0
        """When the latest nomination was made that was answered."""
        self._reached_at_ms = 0
        """When that was heard first."""

    def nominated(self, pending: Pending, nomination: int, now_ms: int) -> None:
        """Wait for the answer to a nomination; `now_ms` 0: it is not known since when."""
        self._waiting.pop(pending.id, None)
        self._waiting[pending.id] = (now_ms, pending, nomination)

    def answered(self, pending: Pending, now_ms: int) -> None:
        """Placement has come as far as the open nomination of this workload."""
        since_ms, _, _ = self._waiting.pop(pending.id, (0, pending, 0))
        if since_ms > self._reached_ms:
            self._reached_ms, self._reached_at_ms = since_ms, now_ms

    def begin_waiting(self, now_ms: int) -> None:
        """After a restart the wait for answers begins anew."""
        waiting = self._waiting
        while waiting and not (first := next(iter(waiting.values())))[0]:
            self.nominated(first[1], first[2], now_ms)

    def due_ms(self) -> int | None:
        """When the oldest nomination without an answer is overdue; forgets the answered."""
        waiting = self._waiting
        while waiting:
            since_ms, pending, nomination = next(iter(waiting.values()))
            if pending.phase is Phase.OFFERED and pending.nomination == nomination:
                return self._due_ms(since_ms)
            del waiting[pending.id]
        return None

    def _due_ms(self, since_ms: int) -> int:
        if since_ms < self._reached_ms:
            return since_ms + ANSWER_WAIT_MS
        if since_ms == self._reached_ms:  # the rest of its unit may be answered in the next one
            return self._reached_at_ms + ANSWER_WAIT_MS
        return since_ms + SILENCE_MS

    def overdue(self, now_ms: int) -> Iterator[tuple[Pending, int]]:
        """Workloads with the nomination that is waited for no more, `ANSWERS_MAX` at most."""
        for _ in range(ANSWERS_MAX):
            due_ms = self.due_ms()
            if due_ms is None or due_ms > now_ms:
                return
            _, (_, pending, nomination) = self._waiting.popitem(last=False)
            yield pending, nomination
