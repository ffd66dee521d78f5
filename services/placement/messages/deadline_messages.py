"""Deadlines that passed: of the cell's parts by their kind, and of the state of one workload."""

from __future__ import annotations

from typing import Final

from services.placement.backfill import promise_news, quota_heads
from services.placement.cell import Action, Cell
from services.placement.nodes import device_records, shunning, switching
from services.placement.state.records import Record
from services.placement.unit.deadlines import TIME_TO_LIVE
from services.placement.workloads import owner_commands, silence, transitions
from shared.core.model.reason import Reason
from shared.events.deadlines import DeadlinePassed
from shared.events.envelope import Received


def passed(cell: Cell, message: Received, fact: DeadlinePassed) -> None:
    """The workload that is due; a deadline that no longer stands does nothing."""
    if fact.kind == switching.KIND:
        cell.switching.look(message)
    elif fact.kind == silence.KIND:
        cell.silence.look(message)
    elif fact.kind == device_records.KIND:
        cell.health.expired(fact.subject, message)
    elif fact.kind == shunning.KIND:
        cell.shunning.expired(fact.subject, message)
    elif fact.kind == promise_news.DUE:
        cell.state.promises.changed()
    elif fact.kind == quota_heads.DUE:
        pass  # each unit ends with a look at it
    else:
        record = cell.state.records.alive.get(fact.subject)
        if record is not None and fact.kind == TIME_TO_LIVE:
            owner_commands.expire(cell.state, record, message)
        elif record is not None and record.deadline_kind == fact.kind:
            _of_workload(cell, record, fact.kind, message)


def _of_workload(cell: Cell, record: Record, kind: str, message: Received) -> None:
    if kind == transitions.RESERVATION:
        text = "its victims did not leave in time"
        cell.evictions.expire(record, Reason.TIMED_OUT, text, message)
    elif kind == transitions.BACKOFF:
        cell.state.deadlines.set(record, "", 0)
        if record.nomination is not None:
            cell.cycle.add(record, message)
    else:
        transitions.deadline(cell.state, record, kind, message)


ACTIONS: Final[dict[type, Action]] = {DeadlinePassed: passed}
