"""GET of nodes: what they are, as their agents said, and what the live workloads hold of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names, missing_node
from services.gateway.fleet import mig
from services.gateway.fleet.held import (
    STATES,
    Held,
    held_of_fleet,
    held_of_node,
    held_on_mig_nodes,
)
from services.gateway.fleet.rows import (
    COLUMNS,
    DeviceStep,
    Row,
    ShownTrend,
    cordoned,
    disputed,
    node_of,
    ready,
    steps,
    trends,
    unhealthy,
)
from services.gateway.fleet.summary import summary_of
from services.gateway.fleet.views import (
    FleetSummary,
    GpuView,
    NodePage,
    NodeSummary,
    NodeView,
    TrendView,
)
from services.gateway.http.authorisation import AccessVerdict, Action, authorise
from shared.core.health.device import DeviceState
from shared.core.model.nouns import Gpu, Node
from shared.core.model.reason import Reason

USE_SECONDS: Final = 1.0
DRAINING: Final = frozenset(("drained", "spot-notice"))
"""Reasons of a cordon that evict what runs on the node."""


async def list_nodes(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A page of nodes by name."""
    limit = call.limit()
    rows, used, held = await asyncio.gather(
        _page(gateway, call, limit), _used(gateway), held_on_mig_nodes(gateway)
    )
    if not rows:
        flavor, pool = call.query.get("flavor", ""), call.query.get("pool", "")
        await check_names(gateway, call, flavor=flavor, pool=pool)
    nodes = [node_of(row) for row in rows[:limit]]
    items = tuple(
        NodeSummary(**_fields(row, node, used.get(node.name, 0), held))
        for row, node in zip(rows, nodes, strict=False)
    )
    cursor = items[-1].name if len(rows) > limit else ""
    return answer(NodePage(items=items, next_cursor=cursor))


async def _page(gateway: GatewayContext, call: RequestContext, limit: int) -> Sequence[Row]:
    """One row more than the page has, if there is one."""
    return await gateway.reader.fetch(
        f"{COLUMNS} WHERE NOT n.removed AND n.name > $1 AND ($2 = '' OR n.flavor = $2)"
        " AND ($3 = '' OR n.pool = $3) ORDER BY n.name LIMIT $4",
        call.query.get("cursor", ""),
        call.query.get("flavor", ""),
        call.query.get("pool", ""),
        limit + 1,
    )


async def get_node(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One node with its devices."""
    name = call.part("name")
    rows = await gateway.reader.fetch(f"{COLUMNS} WHERE n.name = $1 AND n.body <> ''", name)
    if not rows:
        raise await missing_node(gateway, name)
    node, held = node_of(rows[0]), await held_of_node(gateway, name)
    broken, on_ladder, told = unhealthy(rows[0], node), steps(rows[0]), trends(rows[0])
    devices = tuple(
        _device(
            call,
            node,
            gpu,
            held,
            on_ladder.get(gpu.index),
            shown=[one for one in told if one.gpu == gpu.index],
            healthy=gpu.index not in broken,
        )
        for gpu in node.gpus
    )
    milli = sum(one.used_milli for one in devices)
    return answer(NodeView(**_fields(rows[0], node, milli, held), devices=devices))


async def summarise_nodes(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The sum by flavor, made once for all requests within two seconds."""
    flavor = call.query.get("flavor", "")
    found = await _summary(gateway)
    items = tuple(one for one in found.items if flavor in {"", one.flavor})
    if not items:
        await check_names(gateway, call, flavor=flavor)
    return answer(FleetSummary(items=items))


async def _summary(gateway: GatewayContext) -> FleetSummary:
    held = await held_of_fleet(gateway)
    known = gateway.cache.get("fleet summary")
    if known is not None and known[1][0] is held:
        remembered: FleetSummary = known[1][1]
        return remembered
    rows = await gateway.reader.fetch(f"{COLUMNS} WHERE NOT n.removed AND n.body <> ''")
    found = await asyncio.to_thread(summary_of, rows, held)
    gateway.cache["fleet summary"] = (gateway.clock.monotonic_seconds(), (held, found))
    return found


def _may_read(call: RequestContext, team: str) -> bool:
    return authorise(call.subject, Action.READ_WORKLOAD, team) is AccessVerdict.ALLOWED


def _device(
    call: RequestContext,
    node: Node,
    gpu: Gpu,
    held: Held,
    step: DeviceStep | None,
    *,
    shown: Sequence[ShownTrend],
    healthy: bool,
) -> GpuView:
    """The use of the device in all, and its holders as far as the caller may read them."""
    holds = held.of(node.name, gpu.index)
    readable = {one.workload for one in holds if _may_read(call, one.team)}
    mask = 0
    for one in holds:
        mask |= one.mask
    return GpuView(
        index=gpu.index,
        uuid=gpu.uuid,
        memory_mib=gpu.memory_mib,
        mig=gpu.mig,
        healthy=healthy,
        health=DeviceState.HEALTHY.value if step is None else step.state.value,
        health_message="" if step is None else step.message,
        trends=tuple(_trend(one) for one in shown),
        used_milli=sum(one.milli for one in holds),
        used_mask=mask,
        workloads=tuple(sorted(readable)),
        workloads_of_others=len({one.workload for one in holds} - readable),
        mig_profiles=mig.of_device(node, gpu, held, usable=healthy),
    )


def _trend(one: ShownTrend) -> TrendView:
    return TrendView(
        trend=one.trend,
        value=one.value,
        limit=one.limit,
        since_ms=one.since_ms,
        message=one.message,
    )


async def _used(gateway: GatewayContext) -> Mapping[str, int]:
    """Milli-GPU held by node, at most `USE_SECONDS` old."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("used")
    if known is not None and now - known[0] < USE_SECONDS:
        remembered: Mapping[str, int] = known[1]
        return remembered
    rows = await gateway.reader.fetch(
        "SELECT u.node, sum(u.milli)::bigint AS milli FROM gateway.workload w,"
        " unnest(w.nodes, w.nodes_gpu_milli) AS u(node, milli)"
        " WHERE w.live AND w.state = ANY($1::text[]) GROUP BY u.node",
        STATES,
    )
    used = {row["node"]: row["milli"] for row in rows}
    gateway.cache["used"] = (now, used)
    return used


def _fields(row: Mapping[str, Any], node: Node, milli: int, held: Held) -> dict[str, Any]:
    broken = unhealthy(row, node)
    profiles = (
        mig.of_device(node, gpu, held, usable=gpu.index not in broken)
        for gpu in node.gpus
        if gpu.mig
    )
    return {
        "name": node.name,
        "cell": row["cell"],
        "flavor": node.flavor,
        "product": node.product,
        "pool": node.pool,
        "zone": node.zone,
        "block": node.block,
        "rack": node.rack,
        "nvlink_domain": node.nvlink_domain,
        "driver": node.driver,
        "cuda": node.cuda,
        "ready": ready(row, node),
        "cordoned": cordoned(row, node),
        "draining": row["cordon"] in DRAINING,
        "fenced": row["cordon"] == Reason.FENCED.value,
        "cordon_message": row["cordon_message"],
        "gone_at_ms": row["gone_at_ms"] or None,
        "shunned_until_ms": row["shunned_until_ms"] or None,
        "shun_message": row["shun_message"],
        "disputed_gpus": tuple(disputed(row)),
        "dispute_message": row["dispute_message"],
        "health_messages": tuple(one.message for _, one in sorted(steps(row).items())),
        "trend_messages": tuple(one.message for one in trends(row)),
        "taints": node.taints,
        "cpu_milli": node.cpu_milli,
        "memory_mib": node.memory_mib,
        "gpus": len(node.gpus),
        "mig_gpus": sum(gpu.mig for gpu in node.gpus),
        "mig_profiles": mig.sum_of(profiles),
        "used_gpu_milli": milli,
        "unhealthy_gpus": tuple(sorted(broken)),
        "removed": row["removed"],
    }
