"""Limits in force, use over time, debts, budgets and destinations as rows; the newest stands."""

from __future__ import annotations

from typing import Final

import msgspec

from services.gateway.projection.projection_rows import ProjectionBatch
from shared.core.model.reason import Reason
from shared.core.model.team_policy import AtLimit
from shared.core.quota.budget import FULL_PERCENT
from shared.events import quotas
from shared.events.envelope import Event
from shared.events.notifications import DestinationTold

_AT_LIMIT: Final = {
    AtLimit.WARN: "work goes on as before",
    AtLimit.SPOT: "new work starts on spot flavors only",
    AtLimit.NOMINAL: "nothing is borrowed for new work",
    AtLimit.STOP: "no new work starts",
}
_json: Final = msgspec.json.Encoder()


def limits(batch: ProjectionBatch, event: Event, fact: quotas.QuotaChanged) -> None:
    """Limits in force."""
    known = batch.limits.get(fact.name)
    if known is None or known[2] <= fact.version:
        body = _json.encode(fact).decode()
        batch.limits[fact.name] = (fact.name, fact.kind, fact.version, body, event.time_ms)


def usage(batch: ProjectionBatch, event: Event, fact: quotas.QueueUsageTold) -> None:  # noqa: ARG001  # the fact has its own time
    """Use over time of a queue."""
    known = batch.usage.get(fact.queue)
    if known is None or known[2] <= fact.at_ms:
        row = (fact.queue, fact.gpu_seconds, fact.at_ms, fact.half_life_ms)
        batch.usage[fact.queue] = row


def debts(batch: ProjectionBatch, event: Event, fact: quotas.DebtsTold) -> None:  # noqa: ARG001  # the fact has its own time
    """What nodes of the tree owe, or are owed; of those that are not named all stays as it was."""
    for node, debt in fact.debts.items():
        known = batch.debts.get(node)
        if known is None or known[2] <= fact.at_ms:
            batch.debts[node] = (node, debt, fact.at_ms)


def budget(batch: ProjectionBatch, event: Event, fact: quotas.BudgetTold) -> None:  # noqa: ARG001  # the fact has its own time
    """What a team has spent of its budget."""
    known = batch.budgets.get(fact.team)
    if known is None or known[2] <= fact.at_ms:
        batch.budgets[fact.team] = (fact.team, _json.encode(fact).decode(), fact.at_ms)


def warned(batch: ProjectionBatch, event: Event, fact: quotas.BudgetWarned) -> None:
    """A threshold of a budget, in the story of the team."""
    spent = fact.threshold_percent >= FULL_PERCENT
    then = f"until the month ends (UTC) {_AT_LIMIT[fact.at_limit]}"
    message = (
        f"team {fact.team} has spent {fact.threshold_percent} % of its budget of {fact.month}:"
        f" {', '.join(_spent(fact))}; {'' if spent else f'at {FULL_PERCENT} % '}{then}"
    )
    detail = {"next_step": "end what is not needed, or ask for a larger budget"}
    body = _json.encode(detail).decode()
    batch.note(event, "", fact.team, 0, "", reason=Reason.BUDGET, message=message, detail=body)


def _spent(fact: quotas.BudgetWarned) -> list[str]:
    """Beside each limit that there is."""
    told = []
    if fact.limit_gpu_milli_hours is not None:
        limit = fact.limit_gpu_milli_hours
        told.append(f"{fact.spent_gpu_milli_hours / 1e3:.1f} of {limit / 1e3:.1f} GPU-hours")
    if fact.limit_microdollars is not None:
        limit = fact.limit_microdollars
        told.append(f"${fact.spent_microdollars / 1e6:.2f} of ${limit / 1e6:.2f}")
    return told


def destination(batch: ProjectionBatch, event: Event, fact: DestinationTold) -> None:
    """How a destination of notifications stands."""
    del event
    known = batch.destinations.get(fact.name)
    if known is None or known[1] <= fact.at_ms:
        batch.destinations[fact.name] = (fact.name, fact.at_ms, _json.encode(fact).decode())
