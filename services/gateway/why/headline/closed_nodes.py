"""Which nodes that would match take no work, in the words of the operator that closed them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from services.gateway.app.context import GatewayContext
from shared.core.model.decision import Reason
from shared.core.model.wording import count

QUOTED_MAX: Final = 2
"""Nodes of which the words are quoted, those closed last."""
_CLOSED: Final = (
    "SELECT c.message, count(*) OVER () AS closed FROM gateway.node_cordon c"  # noqa: S608  # constants
    " JOIN gateway.node n ON n.name = c.node"
    " WHERE c.reason <> '' AND NOT n.removed AND n.flavor = ANY($1::text[])"
    f" ORDER BY c.at_ms DESC, c.node LIMIT {QUOTED_MAX}"
)


async def with_closed(
    gateway: GatewayContext,
    message: str,
    reason: Reason,
    evidence: Mapping[str, Any],
    flavors: Collection[str],
) -> str:
    """`message` with why nodes of `flavors` are closed, where that is what it is about."""
    out = evidence.get("nodes_matching", 0) > evidence.get("nodes_open", 0)
    if reason is not Reason.NODES_UNHEALTHY and not out:
        return message
    rows = await gateway.reader.fetch(_CLOSED, sorted(flavors))
    if not rows:
        return message
    quoted = "; ".join(row["message"] for row in rows)
    more = rows[0]["closed"] - len(rows)
    others = f"; and {count(more, 'other node')}" if more else ""
    return f"{message} Closed: {quoted}{others}."
