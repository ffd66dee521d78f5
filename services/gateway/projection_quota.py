"""Limits in force, use over time, debts and budgets as rows; the newest stands."""

from __future__ import annotations

from typing import Final

import msgspec

from services.gateway.projection_rows import Batch
from shared.events import quotas
from shared.events.envelope import Event

_json: Final = msgspec.json.Encoder()


def limits(batch: Batch, event: Event, fact: quotas.QuotaChanged) -> None:
    """Limits in force."""
    known = batch.limits.get(fact.name)
    if known is None or known[2] <= fact.version:
        body = _json.encode(fact).decode()
        batch.limits[fact.name] = (fact.name, fact.kind, fact.version, body, event.time_ms)


def usage(batch: Batch, event: Event, fact: quotas.QueueUsageTold) -> None:  # noqa: ARG001  # the fact has its own time
    """Use over time of a queue."""
    known = batch.usage.get(fact.queue)
    if known is None or known[2] <= fact.at_ms:
        row = (fact.queue, fact.gpu_seconds, fact.at_ms, fact.half_life_ms)
        batch.usage[fact.queue] = row


def debts(batch: Batch, event: Event, fact: quotas.DebtsTold) -> None:  # noqa: ARG001  # the fact has its own time
    """What nodes of the tree owe, or are owed; of those that are not named all stays as it was."""
    for node, debt in fact.debts.items():
        known = batch.debts.get(node)
        if known is None or known[2] <= fact.at_ms:
            batch.debts[node] = (node, debt, fact.at_ms)


def budget(batch: Batch, event: Event, fact: quotas.BudgetTold) -> None:  # noqa: ARG001  # the fact has its own time
    """What a team has spent of its budget."""
    known = batch.budgets.get(fact.team)
    if known is None or known[2] <= fact.at_ms:
        batch.budgets[fact.team] = (fact.team, _json.encode(fact).decode(), fact.at_ms)
