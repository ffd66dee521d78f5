"""GET of queues: the document together with what is in it and what it uses now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.door import Call, Door, answer
from services.gateway.organisation_routes import collection_of, document_of, etag
from services.gateway.views import FlavorUse, QueuePage, QueueView
from services.gateway.workload_reads import REFUSAL
from shared.core.lifecycle import HOLDING, State
from shared.core.units import Resources
from shared.events.organisation import QueueApplied
from shared.events.quotas import QuotaChanged

USE_SECONDS: Final = 0.5
_REASONS: Final = "SELECT coalesce(r.reason, 'Pending') AS reason, count(*)"
_QUEUED_HERE: Final = " WHERE w.live AND w.team = $1 AND w.queue = $2 AND w.state = 'queued'"
_HOLDING: Final = frozenset(state.value for state in HOLDING)
_limits: Final = msgspec.json.Decoder(QuotaChanged)


async def list_queues(door: Door, call: Call) -> web.Response:
    """All queues that the caller may see."""
    team = call.team_filter()
    organisation = await door.organisation.current()
    queues = [
        queue
        for name, queue in sorted(organisation.queues.items())
        if team is None or queue.team == team
    ]
    use = await use_by_queue(door)
    limits = await _in_force(door)
    items = tuple(_view(queue, use.get(queue.name, ()), limits, {}) for queue in queues)
    return answer(QueuePage(items=items, next_cursor=""))


async def get_queue(door: Door, call: Call) -> web.Response:
    """One queue, with the reasons of those that wait in it."""
    queue = await document_of(door, call, collection_of(call))
    use = await use_by_queue(door)
    rows = await door.reader.fetch(
        f"{_REASONS} FROM gateway.workload w{REFUSAL}{_QUEUED_HERE} GROUP BY 1",
        queue.team,
        queue.name,
    )
    reasons = {row["reason"]: row["count"] for row in rows}
    view = _view(queue, use.get(queue.name, ()), await _in_force(door), reasons)
    return answer(view, 200, etag(queue))


async def _in_force(door: Door) -> dict[str, QuotaChanged]:
    """The limits by which quota decides now."""
    rows = await door.reader.fetch("SELECT name, body FROM gateway.quota_limit")
    return {row["name"]: _limits.decode(row["body"]) for row in rows}


async def use_by_queue(door: Door) -> dict[str, list[Any]]:
    """Live workloads by queue, state and flavor with their sums, at most `USE_SECONDS` old."""
    now = door.clock.monotonic_seconds()
    known = door.cache.get("queues")
    if known is not None and now - known[0] < USE_SECONDS:
        remembered: dict[str, list[Any]] = known[1]
        return remembered
    rows = await door.reader.fetch(
        "SELECT queue, state, flavor, count(*) AS count, coalesce(sum(gpu_milli), 0)::bigint AS"
        " asked, coalesce(sum(charge_gpu_milli), 0)::bigint AS gpu_milli,"
        " coalesce(sum(charge_cpu_milli), 0)::bigint AS cpu_milli,"
        " coalesce(sum(charge_memory_mib), 0)::bigint AS memory_mib"
        " FROM gateway.workload WHERE live GROUP BY queue, state, flavor"
    )
    use: dict[str, list[Any]] = {}
    for row in rows:
        use.setdefault(row["queue"] or "", []).append(row)
    door.cache["queues"] = (now, use)
    return use


def _view(
    queue: QueueApplied,
    rows: Sequence[Any],
    limits: dict[str, QuotaChanged],
    reasons: dict[str, int],
) -> QueueView:
    states: dict[str, int] = {}
    used: dict[str, Resources] = {}
    waiting_gpu_milli = 0
    for row in rows:
        states[row["state"]] = states.get(row["state"], 0) + row["count"]
        if row["state"] == State.QUEUED.value:
            waiting_gpu_milli += row["asked"]
        if row["state"] in _HOLDING and row["flavor"]:
            amount = Resources(
                gpu_milli=row["gpu_milli"],
                cpu_milli=row["cpu_milli"],
                memory_mib=row["memory_mib"],
            )
            used[row["flavor"]] = used.get(row["flavor"], Resources()) + amount
    in_force = limits.get(queue.name)
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
        flavors=_flavors(queue, used),
        waiting=states.get(State.QUEUED.value, 0),
        waiting_gpu_milli=waiting_gpu_milli,
        workloads=states,
        waiting_reasons=reasons,
        limits_in_force=in_force.version if in_force else 0,
    )


def _flavors(queue: QueueApplied, used: dict[str, Resources]) -> tuple[FlavorUse, ...]:
    """Quota with use; also use in a flavor that the queue has no quota for any more."""
    named = [
        FlavorUse(
            flavor=one.flavor,
            nominal=one.nominal,
            borrowing_limit=one.borrowing_limit,
            lending_limit=one.lending_limit,
            used=used.pop(one.flavor, Resources()),
        )
        for one in queue.flavors
    ]
    left = [
        FlavorUse(
            flavor=flavor,
            nominal=Resources(),
            borrowing_limit=Resources(),
            lending_limit=Resources(),
            used=amount,
        )
        for flavor, amount in sorted(used.items())
    ]
    return (*named, *left)
