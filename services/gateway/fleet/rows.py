"""A node of the read model: what its agent reports, and what was told of it since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shared.core.health.device import TAKES_WORK, DeviceState
from shared.core.health.trends import Trend
from shared.core.model.nouns import Node

COLUMNS: Final = (
    "SELECT n.name, n.cell, n.body, n.removed, (SELECT array_agg(h.gpu ORDER BY h.gpu) FROM"
    " gateway.gpu_health h WHERE h.node = n.name AND NOT h.healthy"
    " AND h.generation >= n.generation) AS unhealthy, coalesce(c.reason, '') AS cordon,"
    " coalesce(c.message, '') AS cordon_message, coalesce(c.gone_at_ms, 0) AS gone_at_ms,"
    " coalesce(s.until_ms, 0) AS shunned_until_ms, coalesce(s.message, '') AS shun_message,"
    " coalesce(d.gpus, '[]') AS disputed, coalesce(d.message, '') AS dispute_message,"
    " coalesce((SELECT json_object_agg(i.gpu, json_build_array(i.state, i.message))"
    " FROM gateway.device_health i WHERE i.node = n.name AND i.state <> 'healthy')::text, '{}')"
    " AS devices, coalesce((SELECT json_agg(json_build_array(t.gpu, t.trend, t.value,"
    " t.limit_value, t.since_ms, t.message) ORDER BY t.gpu, t.trend) FROM gateway.device_trend t"
    " WHERE t.node = n.name AND t.is_open)::text, '[]') AS trends"
    " FROM gateway.node n LEFT JOIN gateway.node_cordon c ON c.node = n.name"
    " LEFT JOIN gateway.node_shun s ON s.node = n.name"
    " LEFT JOIN gateway.node_dispute d ON d.node = n.name"
)
_nodes: Final = msgspec.json.Decoder(Node)
_indexes: Final = msgspec.json.Decoder(list[int])
Row = Mapping[str, Any]


def node_of(row: Row) -> Node:
    """The last report of its agent."""
    return _nodes.decode(row["body"])


def disputed(row: Row) -> list[int]:
    """Devices of which the kubelet told what cannot be."""
    return _indexes.decode(row["disputed"])


class DeviceStep(msgspec.Struct, array_like=True, frozen=True):
    """Where a device is on the ladder of health, unless it is healthy."""

    state: DeviceState
    message: str


class ShownTrend(msgspec.Struct, array_like=True, frozen=True):
    """A slow change of a device that is told and not over."""

    gpu: int
    trend: Trend
    value: float
    limit: float
    since_ms: int
    message: str


_steps: Final = msgspec.json.Decoder(dict[int, DeviceStep])


def steps(row: Row) -> dict[int, DeviceStep]:
    """Devices that are not healthy by the ladder, by index."""
    return _steps.decode(row["devices"])


_trends: Final = msgspec.json.Decoder(list[ShownTrend])


def trends(row: Row) -> list[ShownTrend]:
    """Open trends of its devices, by index and trend."""
    return _trends.decode(row["trends"])


def unhealthy(row: Row, node: Node) -> set[int]:
    """Devices not to be used; -1 in a report speaks of the whole node."""
    out = (gpu for gpu, step in steps(row).items() if step.state not in TAKES_WORK)
    reported = {*(row["unhealthy"] or ()), *disputed(row), *out}
    told = {gpu.index for gpu in node.gpus if not gpu.healthy}
    return {gpu.index for gpu in node.gpus} if -1 in reported else reported | told


def ready(row: Row, node: Node) -> bool:
    """Whether the cluster, and the agent of the node, report it as ready."""
    return node.ready and -1 not in (row["unhealthy"] or ())


def cordoned(row: Row, node: Node) -> bool:
    """Whether nothing more is started there, by an agent's or an operator's word."""
    return node.cordoned or bool(row["cordon"])
