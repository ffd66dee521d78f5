"""Messages of admission and quota: what is there, what may be tried, and how much each may use."""

from __future__ import annotations

from typing import Final

from services.placement.cell import Action, Cell
from services.placement.state.records import Nomination, Record
from services.placement.workloads.transitions import BACKOFF
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Workload
from shared.events import quotas
from shared.events.envelope import Received
from shared.events.workloads import WorkloadQueued


def queued(cell: Cell, _: Received, fact: WorkloadQueued) -> None:
    """Admission's yes."""
    _know(cell, fact.workload, fact.version)


def nominated(cell: Cell, message: Received, fact: quotas.WorkloadNominated) -> None:
    """A nomination may overtake `WorkloadQueued`: they come on two topics."""
    record = _know(cell, fact.workload, 1)
    if record is None or record.state is not State.QUEUED:
        return
    nomination = Nomination(
        number=fact.nomination,
        order_key=fact.order_key,
        flavors=tuple(one.flavor for one in fact.flavors),
        strict=fact.strict,
        within_nominal=fact.within_nominal,
        next_of_own=fact.next_of_own,
    )
    cell.state.unit.nominate(record, nomination, message)
    if cell.state.reservations.of(record.workload.id) is not None:
        cell.evictions.nominated_again(record, message)
    elif record.deadline_kind != BACKOFF:
        cell.cycle.add(record, message)


def withdrawn(cell: Cell, _: Received, fact: quotas.NominationWithdrawn) -> None:
    """It may be tried no more."""
    record = cell.state.records.alive.get(fact.workload_id)
    if record and record.nomination and record.nomination.number == fact.nomination:
        cell.state.withdraw(record, for_quota=True)
        cell.state.records.touch(record)


def quota_changed(cell: Cell, message: Received, fact: quotas.QuotaChanged) -> None:
    """A node of the quota tree has other limits, or drains."""
    changed = cell.state.usage.put(fact)
    cell.quotas.update(changed)
    cell.state.unit.freed_queues.update(dict.fromkeys(changed, message))
    if changed:
        cell.queue_drains.begin(fact.name)


def usage_told(cell: Cell, _: Received, fact: quotas.QueueUsageTold) -> None:
    """What a queue has used over time, which decides its turn."""
    cell.state.queue_order.told(fact)


def debts_told(cell: Cell, _: Received, fact: quotas.DebtsTold) -> None:
    """What nodes of the tree have had beyond their part."""
    cell.state.queue_order.debts_told(fact)


def budget_told(cell: Cell, _: Received, fact: quotas.BudgetTold) -> None:
    """What a team has spent, which decides whether its gangs may grow."""
    cell.state.spent_budgets.told(fact)


def _know(cell: Cell, workload: Workload, version: int) -> Record | None:
    """Its record, made on first sight; None when it is over."""
    records = cell.state.records
    record = records.alive.get(workload.id)
    if record is None and not records.known(workload.id):
        record = Record(
            workload=workload, state=State.QUEUED, version=version, priority=workload.priority
        )
        cell.state.know(record)
    return record


ACTIONS: Final[dict[type, Action]] = {
    WorkloadQueued: queued,
    quotas.WorkloadNominated: nominated,
    quotas.NominationWithdrawn: withdrawn,
    quotas.QuotaChanged: quota_changed,
    quotas.QueueUsageTold: usage_told,
    quotas.DebtsTold: debts_told,
    quotas.BudgetTold: budget_told,
}
