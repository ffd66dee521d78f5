"""The table of nodes that were told: what is committed, and the statements that change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from shared.core.model.nouns import Node
from shared.events.nodes import GpuHealthReported
from shared.ports.reader import Reader
from shared.ports.store import Write

PUT: Final = (
    "INSERT INTO cluster_watcher.node AS n (name, cell, generation, body, ill)"
    " SELECT r.name, {0}::int, r.generation, r.body::json, r.ill::json"
    " FROM unnest({1}::text[], {2}::bigint[], {3}::text[], {4}::text[])"
    " AS r(name, generation, body, ill)"
    " ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, body = excluded.body,"
    " ill = excluded.ill RETURNING 1"
)
DELETE: Final = "DELETE FROM cluster_watcher.node WHERE name = ANY({0}::text[]) RETURNING 1"
ALL: Final = (
    "SELECT name, generation, body::text AS body, ill::text AS ill"
    " FROM cluster_watcher.node WHERE cell = $1"
)
_encode: Final = msgspec.json.Encoder().encode
_nodes: Final = msgspec.json.Decoder(Node)
_ill: Final = msgspec.json.Decoder(dict[int, str])


class ToldNode(msgspec.Struct, frozen=True, kw_only=True):
    """What was told of a node last."""

    node: Node
    generation: int
    ill: dict[int, str] = msgspec.field(default_factory=dict)
    """GPUs that its agent calls unhealthy: the reason by index."""

    def with_health(self, fact: GpuHealthReported) -> ToldNode:
        """As it is once the health of one GPU is told."""
        others = {index: reason for index, reason in self.ill.items() if index != fact.gpu}
        ill = others if fact.healthy else {**others, fact.gpu: fact.reason}
        return msgspec.structs.replace(self, ill=ill)


async def load(reader: Reader, cell: int) -> dict[str, ToldNode]:
    """All that was told and not removed."""
    return {
        row["name"]: ToldNode(
            node=_nodes.decode(row["body"]),
            generation=row["generation"],
            ill=_ill.decode(row["ill"]),
        )
        for row in await reader.fetch(ALL, cell)
    }


def put(told: Mapping[str, ToldNode], cell: int) -> Write:
    """New rows, or what they are now."""
    generations = [one.generation for one in told.values()]
    bodies = [_encode(one.node).decode() for one in told.values()]
    ill = [_encode(one.ill).decode() for one in told.values()]
    return Write(PUT, (cell, list(told), generations, bodies, ill), expect=len(told))


def delete(names: Collection[str]) -> Write:
    """Rows of nodes that are gone."""
    return Write(DELETE, (list(names),), expect=len(names))
