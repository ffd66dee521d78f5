"""Commands: of owners and operators about one workload, and of preemption about many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from services.placement.cell import Action, Cell
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import idle_release, owner_commands, resizing, transitions
from shared.core.model.reason import Reason
from shared.events import plans, workloads
from shared.events.envelope import Received


def _with_record(command: Callable[[CellState, Record, Any, Received], None]) -> Action:
    """A command for a workload that is over, or never was, does nothing."""

    def apply(cell: Cell, message: Received, payload: Any) -> None:  # noqa: ANN401  # any command
        record = cell.state.records.alive.get(payload.workload_id)
        if record is not None:
            command(cell.state, record, payload, message)

    return apply


def evict(
    state: CellState, record: Record, command: workloads.RequestEviction, cause: Received
) -> None:
    """An operator, or a service, wants it off its nodes."""
    note = command.note or (command.reason if command.reason != Reason.OPERATOR else "")
    text = f"evicted by {command.by or 'an operator'}{f': {note}' if note else ''}"
    transitions.evict(state, record, Reason.OPERATOR, text, cause, note=note)


def resize(
    state: CellState, record: Record, command: workloads.ResizeWorkload, _: Received
) -> None:
    """Its owner wants it larger or smaller."""
    resizing.want(state, record, command.pods)


def propose(cell: Cell, message: Received, plan: plans.ProposeEvictionPlan) -> None:
    """Preemption proposes victims for one that waits."""
    cell.evictions.propose(message, plan)


def release_idle(cell: Cell, message: Received, plan: plans.ReleaseIdleWorkload) -> None:
    """Preemption wants idle work stopped and held."""
    idle_release.release(cell.state, message, plan)


ACTIONS: Final[dict[type, Action]] = {
    workloads.CancelWorkload: _with_record(owner_commands.cancel),
    workloads.HoldWorkload: _with_record(owner_commands.hold),
    workloads.ReleaseWorkload: _with_record(owner_commands.release),
    workloads.ReprioritiseWorkload: _with_record(owner_commands.reprioritise),
    workloads.ResizeWorkload: _with_record(resize),
    workloads.RequestEviction: _with_record(evict),
    plans.ProposeEvictionPlan: propose,
    plans.ReleaseIdleWorkload: release_idle,
}
