"""Workloads ahead of a workload, and those expected to end next, from the read model.

Read on request; no message costs more for it. An index finds the live workloads of a team; the
first of a queue, and the next ends of all, are remembered for `FRESH_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from services.gateway.app.context import GatewayContext, RequestContext
from services.gateway.http.authorisation import AccessVerdict, Action, authorise
from services.gateway.why.headline import Vacated
from services.gateway.why.why_views import Freeing, Neighbour, QueuePlace
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadKind, WorkloadSpec
from shared.core.model.units import Resources

FIRST_MAX: Final = 3
"""Workloads that are named in an answer."""
FRESH_SECONDS: Final = 1.0
"""What is remembered is at most so old."""
ENDS_MAX: Final = 20_000
"""Expected ends that are kept, the earliest."""
_WAITING: Final = (
    " FROM gateway.workload w WHERE w.live AND w.team = $1 AND w.queue = $2 AND w.state = 'queued'"
)
_AHEAD: Final = (
    " (w.priority, -w.submitted_at_ms) > ($3::bigint, -$4::bigint)"
    ' OR (w.priority = $3 AND w.submitted_at_ms = $4 AND w.id COLLATE "C" < $5)'
)
_PLACE: Final = (
    "SELECT count(*) AS waiting, count(*) FILTER (WHERE a.ahead) AS ahead,"  # noqa: S608  # constants
    " count(*) FILTER (WHERE a.id = ANY ($6)) AS first,"
    " coalesce(sum(a.gpu_milli) FILTER (WHERE a.ahead), 0)::bigint AS gpu_milli"
    f" FROM (SELECT w.id, w.gpu_milli, ({_AHEAD}) AS ahead{_WAITING}) a"
)
_FIRST: Final = (
    f"SELECT w.id, w.name, w.team, w.priority, w.gpu_milli{_WAITING}"  # constants
    f' ORDER BY w.priority DESC, w.submitted_at_ms, w.id COLLATE "C" LIMIT {FIRST_MAX}'
)
_GRACE_SECONDS: Final = WorkloadSpec(name="", kind=WorkloadKind.TRAINING).grace_seconds
"""Where a spec was not read."""
_GIVEN_BACK: Final = (
    "SELECT w.id, w.name, w.team, w.priority, w.gpu_milli, w.queue, w.flavor, w.state,"
    " w.charge_gpu_milli, w.charge_cpu_milli, w.charge_memory_mib"
)
_PREEMPTOR: Final = (
    "(SELECT nullif(e.detail, '')::json->'preemption'->>'workload_id' FROM gateway.event e"
    " WHERE e.workload_id = w.id AND e.version = w.version AND e.state = 'evicting'"
    " ORDER BY e.seq DESC LIMIT 1)"
)
_STOPPED: Final = (
    f"(w.changed_at_ms + 1000 * coalesce((s.spec::json->>'grace_seconds')::bigint,"
    f" {_GRACE_SECONDS}))"
)
_ENDS: Final = (
    f"{_GIVEN_BACK}, '' AS kept_for, w.running_at_ms + w.expected_ms AS ends_at_ms"  # constants
    " FROM gateway.workload w"
    " WHERE w.live AND w.state = 'running' AND w.running_at_ms + w.expected_ms > $1"
    f" UNION ALL {_GIVEN_BACK}, coalesce({_PREEMPTOR}, ''), {_STOPPED}"
    " FROM gateway.workload w LEFT JOIN gateway.workload_spec s ON s.id = w.id"
    f" WHERE w.live AND w.state IN ('evicting', 'cancelling') AND {_STOPPED} > $1"
    f" ORDER BY ends_at_ms LIMIT {ENDS_MAX}"
)
"""What runs by its expected end, what is being stopped by the end of its grace."""


async def place_in_queue(gateway: GatewayContext, row: Mapping[str, Any]) -> QueuePlace:
    """The place of a queued workload: priority, then age, then identity. O(live of the team)."""
    first = await _first(gateway, row["team"], row["queue"])
    counted = await _counted(gateway, row, first)
    if counted["first"] < len(first):  # one of them waits no more
        gateway.cache.pop(("first", row["queue"]), None)
        first = await _first(gateway, row["team"], row["queue"])
        counted = await _counted(gateway, row, first)
    return QueuePlace(
        queue=row["queue"],
        place=counted["ahead"] + 1,
        waiting=counted["waiting"],
        gpu_milli_ahead=counted["gpu_milli"],
        first=tuple(
            _neighbour(one) for one in first[: counted["ahead"]] if one["id"] != row["id"]
        ),
    )


async def _counted(
    gateway: GatewayContext, row: Mapping[str, Any], first: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """How many wait, how many of them ahead, and how many of `first`."""
    me = (row["team"], row["queue"], row["priority"], row["submitted_at_ms"], row["id"])
    return (await gateway.reader.fetch(_PLACE, *me, [one["id"] for one in first]))[0]


async def _first(gateway: GatewayContext, team: str, queue: str) -> list[Mapping[str, Any]]:
    """Workloads at the head of a queue. O(live of the team), then remembered for a while."""
    place = ("first", queue)
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get(place)
    if known is not None and now - known[0] < FRESH_SECONDS:
        remembered: list[Mapping[str, Any]] = known[1]
        return remembered
    rows = list(await gateway.reader.fetch(_FIRST, team, queue))
    gateway.cache[place] = (now, rows)
    return rows


async def frees_next(
    gateway: GatewayContext,
    call: RequestContext,
    workload_id: str,
    flavors: Collection[str],
    queues: Collection[str] | None,
) -> tuple[Freeing, ...]:
    """The first expected ends in `flavors`, of `queues` or of all, that can free room for it."""
    found: list[Freeing] = []
    now_ms = gateway.clock.now_ms()
    for one in await _ends(gateway):
        if len(found) == FIRST_MAX:
            break
        meant = one["flavor"] in flavors and (queues is None or one["queue"] in queues)
        its_own = one["kept_for"] in ("", workload_id)
        if meant and its_own and one["ends_at_ms"] > now_ms:
            found.append(_freeing(one, call))
    return tuple(found)


async def vacated_for(gateway: GatewayContext, workload_id: str) -> Vacated:
    """What is being stopped for the workload."""
    now_ms = gateway.clock.now_ms()
    going = [
        one
        for one in await _ends(gateway)
        if one["kept_for"] == workload_id and one["ends_at_ms"] > now_ms
    ]
    return Vacated(
        gpu_milli=sum(one["charge_gpu_milli"] or 0 for one in going),
        by_ms=max((one["ends_at_ms"] for one in going), default=0),
    )


async def expected_ends(
    gateway: GatewayContext, queues_by_flavor: Mapping[str, Collection[str] | None]
) -> list[tuple[int, int]]:
    """(time, milli-GPU given back to all) by expected end, in each flavor of these queues.

    None for the queues of a flavor means all.
    """
    found = []
    for one in await _ends(gateway):
        queues = queues_by_flavor.get(one["flavor"], ())
        if (queues is None or one["queue"] in queues) and not one["kept_for"]:
            found.append((one["ends_at_ms"], one["charge_gpu_milli"] or 0))
    return found


async def _ends(gateway: GatewayContext) -> list[Mapping[str, Any]]:
    """Holders of devices by expected end, without overdue ones. O(live), then remembered."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("ends")
    if known is not None and now - known[0] < FRESH_SECONDS:
        remembered: list[Mapping[str, Any]] = known[1]
        return remembered
    rows = list(await gateway.reader.fetch(_ENDS, gateway.clock.now_ms()))
    gateway.cache["ends"] = (now, rows)
    return rows


def _freeing(one: Mapping[str, Any], call: RequestContext) -> Freeing:
    seen = authorise(call.subject, Action.READ_WORKLOAD, one["team"]) is AccessVerdict.ALLOWED
    return Freeing(
        workload=_neighbour(one) if seen else _SOMEBODY,
        flavor=one["flavor"],
        charge=Resources(
            gpu_milli=one["charge_gpu_milli"] or 0,
            cpu_milli=one["charge_cpu_milli"] or 0,
            memory_mib=one["charge_memory_mib"] or 0,
        ),
        ends_at_ms=one["ends_at_ms"],
        state=State(one["state"]),
    )


def _neighbour(one: Mapping[str, Any]) -> Neighbour:
    return Neighbour(
        id=one["id"],
        name=one["name"] or "",
        team=one["team"],
        priority=one["priority"] or 0,
        gpu_milli=one["gpu_milli"] or 0,
    )


_SOMEBODY: Final = Neighbour(id="", name="", team="", priority=0, gpu_milli=0)
