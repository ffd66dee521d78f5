"""Nodes that are lost: since when, and whether an operator says that their machines are off."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.why.why_views import WhyEntry
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Node
from shared.core.model.reason import Reason
from shared.core.model.wording import count, listing, moment

STOPPING: Final = frozenset({State.EVICTING, State.CANCELLING})
"""Its devices are held until its pods are known to have stopped."""
_NODES: Final = (
    "SELECT n.name, n.generation, n.body, n.changed_at_ms, h.generation AS told_generation,"
    " h.changed_at_ms AS told_at_ms, coalesce(c.reason, '') AS cordon FROM gateway.node n"
    " LEFT JOIN gateway.gpu_health h ON h.node = n.name AND h.gpu = -1 AND NOT h.healthy"
    " LEFT JOIN gateway.node_cordon c ON c.node = n.name"
    " WHERE n.name = ANY($1::text[]) AND NOT n.removed AND n.body <> '' ORDER BY n.name"
)
_nodes: Final = msgspec.json.Decoder(Node)


class Lost(NamedTuple):
    """A lost node; `generation` is that of the report which says so."""

    name: str
    since_ms: int
    generation: int
    fenced: bool


async def lost_of(gateway: GatewayContext, names: Collection[str]) -> list[Lost]:
    """Those of `names` that are not ready, by name."""
    rows = await gateway.reader.fetch(_NODES, sorted(set(names)))
    return [found for row in rows if (found := _lost(row)) is not None]


def _lost(row: Any) -> Lost | None:  # noqa: ANN401  # a row
    told = row["told_generation"]
    by_health = told is not None and told >= row["generation"]
    if _nodes.decode(row["body"]).ready and not by_health:
        return None
    return Lost(
        name=row["name"],
        since_ms=row["told_at_ms"] or row["changed_at_ms"],
        generation=max(row["generation"], told or 0),
        fenced=row["cordon"] == Reason.FENCED.value,
    )


def explained(entry: WhyEntry, lost: Collection[Lost], now_ms: int, *, queues: bool) -> WhyEntry:
    """`entry` of work that is being stopped, with the nodes for which it waits, and what helps.

    `queues`: it queues again afterwards.
    """
    if not lost:
        return entry
    words = "; ".join(_standing(one, now_ms) for one in lost)
    evidence = {one.name: (now_ms - one.since_ms) // 1000 for one in lost}
    return msgspec.structs.replace(
        entry,
        message=f"{entry.message}; {words}",
        next_step=_next_step([one.name for one in lost if not one.fenced], queues=queues),
        evidence={**entry.evidence, "lost_seconds": evidence},
    )


def _standing(one: Lost, now_ms: int) -> str:
    since = f"node {one.name} is lost since {moment(one.since_ms)}"
    since += f" ({count(max(0, now_ms - one.since_ms) // 60_000, 'minute')})"
    if one.fenced:
        return f"{since} and fenced: its pods are being taken away"
    return f"{since} and may still run its pods"


def _next_step(names: list[str], *, queues: bool) -> str:
    then = "it queues again" if queues else "it is over"
    if not names:
        return f"{then} in a moment"
    one = len(names) == 1
    machines = f"the machine of {names[0]} is" if one else f"the machines of {listing(names)} are"
    back = "the node is back or deleted" if one else "the nodes are back or deleted"
    return (
        f"{then} when {back}; if {machines} off for certain, an operator says so:"
        f" muster admin nodes fence {' '.join(names)}"
    )
