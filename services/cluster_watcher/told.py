"""The table of nodes that were told: what is committed, and the statements that change it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from shared.core.model import Node
from shared.ports.reader import Reader
from shared.ports.store import Write

PUT: Final = (
    "INSERT INTO cluster_watcher.node AS n (name, cell, generation, body)"
    " SELECT r.name, {0}::int, r.generation, r.body::json"
    " FROM unnest({1}::text[], {2}::bigint[], {3}::text[]) AS r(name, generation, body)"
    " ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, body = excluded.body"
    " RETURNING 1"
)
DELETE: Final = "DELETE FROM cluster_watcher.node WHERE name = ANY({0}::text[]) RETURNING 1"
ALL: Final = (
    "SELECT name, generation, body::text AS body FROM cluster_watcher.node WHERE cell = $1"
)
_encode: Final = msgspec.json.Encoder().encode
_nodes: Final = msgspec.json.Decoder(Node)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was told of a node last."""

    node: Node
    generation: int


async def load(reader: Reader, cell: int) -> dict[str, Told]:
    """All that was told and not removed."""
    return {
        row["name"]: Told(node=_nodes.decode(row["body"]), generation=row["generation"])
        for row in await reader.fetch(ALL, cell)
    }


def put(told: Mapping[str, Told], cell: int) -> Write:
    """New rows, or what they are now."""
    generations = [one.generation for one in told.values()]
    bodies = [_encode(one.node).decode() for one in told.values()]
    return Write(PUT, (cell, list(told), generations, bodies), expect=len(told))


def delete(names: Collection[str]) -> Write:
    """Rows of nodes that are gone."""
    return Write(DELETE, (list(names),), expect=len(names))
