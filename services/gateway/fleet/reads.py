"""GET of nodes: what they are, as their agents said, and what the live workloads hold of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.authorisation import Action, Verdict, authorise
from services.gateway.door import Call, Door, answer
from services.gateway.existing import check_names, missing_node
from services.gateway.fleet_views import GpuView, NodePage, NodeSummary, NodeView
from shared.core.lifecycle import HOLDING
from shared.core.model import Gpu, Node, Placement

USE_SECONDS: Final = 1.0
DRAINING: Final = frozenset(("drained", "spot-notice"))
"""Reasons of a cordon that evict what runs on the node."""
_nodes: Final = msgspec.json.Decoder(Node)
_placements: Final = msgspec.json.Decoder(Placement)
_HOLDING: Final = sorted(state.value for state in HOLDING)
_COLUMNS: Final = (
    "SELECT n.name, n.cell, n.body, n.removed, (SELECT array_agg(h.gpu ORDER BY h.gpu) FROM"
    " gateway.gpu_health h WHERE h.node = n.name AND NOT h.healthy"
    " AND h.generation >= n.generation) AS unhealthy, coalesce(c.reason, '') AS cordon,"
    " coalesce(c.message, '') AS cordon_message, coalesce(c.gone_at_ms, 0) AS gone_at_ms,"
    " coalesce(s.until_ms, 0) AS shunned_until_ms, coalesce(s.message, '') AS shun_message"
    " FROM gateway.node n LEFT JOIN gateway.node_cordon c ON c.node = n.name"
    " LEFT JOIN gateway.node_shun s ON s.node = n.name"
)


async def list_nodes(door: Door, call: Call) -> web.Response:
    """A page of nodes by name."""
    limit = call.limit()
    rows = await door.reader.fetch(
        f"{_COLUMNS} WHERE NOT n.removed AND n.name > $1 AND ($2 = '' OR n.flavor = $2)"
        " AND ($3 = '' OR n.pool = $3) ORDER BY n.name LIMIT $4",
        call.query.get("cursor", ""),
        call.query.get("flavor", ""),
        call.query.get("pool", ""),
        limit + 1,
    )
    if not rows:
        flavor, pool = call.query.get("flavor", ""), call.query.get("pool", "")
        await check_names(door, call, flavor=flavor, pool=pool)
    used = await _used(door)
    items = tuple(NodeSummary(**_fields(row, used)) for row in rows[:limit])
    cursor = items[-1].name if len(rows) > limit else ""
    return answer(NodePage(items=items, next_cursor=cursor))


async def get_node(door: Door, call: Call) -> web.Response:
    """One node with its devices."""
    name = call.part("name")
    rows = await door.reader.fetch(f"{_COLUMNS} WHERE n.name = $1 AND n.body <> ''", name)
    if not rows:
        raise await missing_node(door, name)
    holders = await door.reader.fetch(
        "SELECT id, team, placement FROM gateway.workload WHERE live AND state = ANY($1::text[])"
        " AND nodes @> ARRAY[$2::text]",
        _HOLDING,
        name,
    )
    shares = _shares(holders, name)
    milli = sum(one[1] for devices in shares.values() for one in devices)
    node = _nodes.decode(rows[0]["body"])
    unhealthy = _unhealthy(rows[0], node)
    readable = {row["id"] for row in holders if _may_read(call, row["team"])}
    devices = tuple(
        _device(gpu, shares.get(gpu.index, ()), readable, healthy=gpu.index not in unhealthy)
        for gpu in node.gpus
    )
    view = NodeView(**_fields(rows[0], {name: milli}), devices=devices)
    return answer(view)


def _may_read(call: Call, team: str) -> bool:
    return authorise(call.subject, Action.READ_WORKLOAD, team) is Verdict.ALLOWED


def _device(
    gpu: Gpu, shares: Sequence[tuple[str, int, int]], readable: set[str], *, healthy: bool
) -> GpuView:
    """Its use in all, and by whom as far as the caller may read them."""
    holders = {one[0] for one in shares}
    return GpuView(
        index=gpu.index,
        uuid=gpu.uuid,
        memory_mib=gpu.memory_mib,
        mig=gpu.mig,
        healthy=healthy,
        used_milli=sum(one[1] for one in shares),
        used_mask=_union(one[2] for one in shares),
        workloads=tuple(sorted(holders & readable)),
        workloads_of_others=len(holders - readable),
    )


def _union(masks: Any) -> int:  # noqa: ANN401  # a generator of int
    result = 0
    for mask in masks:
        result |= mask
    return result


def _shares(holders: Sequence[Any], node: str) -> dict[int, list[tuple[str, int, int]]]:
    """(workload, milli, mask) by GPU index of one node."""
    shares: dict[int, list[tuple[str, int, int]]] = {}
    for row in holders:
        if not row["placement"]:
            continue
        for pod in _placements.decode(row["placement"]).pods:
            if pod.node == node:
                for share in pod.shares:
                    shares.setdefault(share.index, []).append((row["id"], share.milli, share.mask))
    return shares


async def _used(door: Door) -> Mapping[str, int]:
    """Milli-GPU held by node, at most `USE_SECONDS` old."""
    now = door.clock.monotonic_seconds()
    known = door.cache.get("used")
    if known is not None and now - known[0] < USE_SECONDS:
        remembered: Mapping[str, int] = known[1]
        return remembered
    rows = await door.reader.fetch(
        "SELECT u.node, sum(u.milli)::bigint AS milli FROM gateway.workload w,"
        " unnest(w.nodes, w.nodes_gpu_milli) AS u(node, milli)"
        " WHERE w.live AND w.state = ANY($1::text[]) GROUP BY u.node",
        _HOLDING,
    )
    used = {row["node"]: row["milli"] for row in rows}
    door.cache["used"] = (now, used)
    return used


def _unhealthy(row: Mapping[str, Any], node: Node) -> set[int]:
    """Devices not to be used; -1 in a report speaks of the whole node."""
    reported = set(row["unhealthy"] or ())
    told = {gpu.index for gpu in node.gpus if not gpu.healthy}
    return {gpu.index for gpu in node.gpus} if -1 in reported else reported | told


def _fields(row: Mapping[str, Any], used: Mapping[str, int]) -> dict[str, Any]:
    node = _nodes.decode(row["body"])
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
        "ready": node.ready and -1 not in (row["unhealthy"] or ()),
        "cordoned": node.cordoned or bool(row["cordon"]),
        "draining": row["cordon"] in DRAINING,
        "cordon_message": row["cordon_message"],
        "gone_at_ms": row["gone_at_ms"] or None,
        "shunned_until_ms": row["shunned_until_ms"] or None,
        "shun_message": row["shun_message"],
        "taints": node.taints,
        "cpu_milli": node.cpu_milli,
        "memory_mib": node.memory_mib,
        "gpus": len(node.gpus),
        "mig_gpus": sum(gpu.mig for gpu in node.gpus),
        "used_gpu_milli": used.get(node.name, 0),
        "unhealthy_gpus": tuple(sorted(_unhealthy(row, node))),
        "removed": row["removed"],
    }
