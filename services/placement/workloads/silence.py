"""Attempts of which the binder said nothing for a while are asked about, many at once (ADR 105).

A fact or a command that was lost, with records of the log say, is made good so: the binder tells
again what it knows beyond what is known here, and what is to stop is told to stop once more.
"""

from __future__ import annotations

from typing import Final

from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads.transitions import HAS_PODS, stop_pods
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.pods import AskAttempts, AskedAttempt

KIND: Final = "silent-attempts"
"""Kind of the deadline on which those that are silent are looked for."""
SILENT_SECONDS: Final = 60
ASKED_MAX: Final = 500
"""Attempts in one command: about 40 KiB ..."""
COMMANDS_MAX: Final = 8
"""... and so many in one unit."""
PAUSE_MS: Final = 5_000
"""Between two looks: what falls silent in between is asked about together."""


class SilentAttempts:
    """One cell; `seconds` of silence are too many."""

    def __init__(self, state: CellState, seconds: int) -> None:
        self._state = state
        self._silent_ms = seconds * 1000
        self._looked_at_ms = 0

    def next_due_ms(self) -> int | None:
        """When to look again; None while nothing holds devices."""
        oldest_ms = self._state.heard.oldest_ms
        if oldest_ms is None:
            return None
        return max(oldest_ms + self._silent_ms, self._looked_at_ms + PAUSE_MS)

    def due(self, now_ms: int) -> list[Received]:
        """The message on which `look` is called; its id follows from its time."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return []
        return [deadline_message(KIND, self._subject, self._state.epoch, now_ms)]

    def look(self, cause: Received) -> None:
        """Ask about those that are silent for too long; from now on they are for as long again."""
        state = self._state
        now_ms = self._looked_at_ms = state.unit.now_ms
        silent = state.heard.silent_since(now_ms - self._silent_ms, ASKED_MAX * COMMANDS_MAX)
        asked = list[AskedAttempt]()
        for workload_id in silent:
            state.heard.note(workload_id, now_ms)
            record = state.records.alive[workload_id]
            if record.state not in HAS_PODS:
                stop_pods(state, record, record.reason, cause)
            asked.append(_asked(record))
        for start in range(0, len(asked), ASKED_MAX):
            some = tuple(asked[start : start + ASKED_MAX])
            command = AskAttempts(epoch=state.epoch, cell=state.cell, attempts=some)
            state.unit.ask_binder(command, self._subject, cause)

    @property
    def _subject(self) -> str:
        return f"cell-{self._state.cell}"


def _asked(record: Record) -> AskedAttempt:
    resize = record.resize
    return AskedAttempt(
        workload_id=record.workload.id,
        attempt=record.attempt,
        state=record.state,
        resize=resize.number if resize.open else 0,
        resize_pods=resize.pods if resize.open else 0,
    )
