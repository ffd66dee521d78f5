"""GET of queues: the document together with what is in it and what it uses now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names
from services.gateway.organisation.organisation_routes import collection_of, document_of
from services.gateway.protocol import live_tag
from services.gateway.queues.queue_standing import QueueStanding, standing_of
from services.gateway.queues.queue_use import use_by_queue
from services.gateway.queues.queue_views import QueuePage, QueueView
from services.gateway.workloads.workload_reads import REFUSAL
from shared.core.admission.recorded_reasons import recorded
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.events.organisation import QueueApplied

_REASONS: Final = "SELECT coalesce(r.reason, 'Pending') AS reason, count(*)"
_QUEUED_HERE: Final = " WHERE w.live AND w.team = $1 AND w.queue = $2 AND w.state = 'queued'"


async def list_queues(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """All queues that the caller may see."""
    team = call.team_filter()
    organisation = await gateway.organisation.current()
    queues = [
        queue
        for name, queue in sorted(organisation.queues.items())
        if team is None or queue.team == team
    ]
    if not queues:
        await check_names(gateway, call, team=call.query.get("team", ""))
    use, standing = await use_by_queue(gateway), await standing_of(gateway)
    items = tuple(_view(queue, use.get(queue.name, ()), standing, {}) for queue in queues)
    return answer(QueuePage(items=items, next_cursor=""))


async def get_queue(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One queue, with the reasons of those that wait in it."""
    queue = await document_of(gateway, call, collection_of(call))
    use, standing = await use_by_queue(gateway), await standing_of(gateway)
    rows = await gateway.reader.fetch(
        f"{_REASONS} FROM gateway.workload w{REFUSAL}{_QUEUED_HERE} GROUP BY 1",
        queue.team,
        queue.name,
    )
    reasons = Counter[Reason]()
    for row in rows:
        reasons[recorded(row["reason"])[0]] += row["count"]
    view = _view(queue, use.get(queue.name, ()), standing, reasons)
    return answer(view, 200, live_tag(queue.version))


def _view(
    queue: QueueApplied,
    rows: Sequence[Any],
    standing: QueueStanding,
    reasons: dict[Reason, int],
) -> QueueView:
    states: dict[str, int] = {}
    waiting_gpu_milli = 0
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + row["count"]
        if row["state"] == State.QUEUED.value:
            waiting_gpu_milli += row["asked"]
    usage_gpu_seconds, half_life_ms = standing.usage(queue.name)
    debt_millionths, debt_told_at_ms = standing.debt(queue.name)
    return QueueView(
        name=queue.name,
        version=queue.version,
        team=queue.team,
        cohort=queue.cohort,
        strict=queue.strict,
        held=queue.held,
        draining=queue.draining,
        weight=queue.weight,
        policy=queue.policy,
        flavors=standing.flavors(queue),
        waiting=states.get(State.QUEUED.value, 0),
        waiting_gpu_milli=waiting_gpu_milli,
        workloads=states,
        waiting_reasons=reasons,
        limits_in_force=standing.versions.get(queue.name, 0),
        share_millionths=standing.share(queue.name),
        debt_millionths=debt_millionths,
        debt_told_at_ms=debt_told_at_ms,
        usage_gpu_seconds=usage_gpu_seconds,
        usage_half_life_ms=half_life_ms,
        budget=standing.budgets.get(queue.team),
    )
