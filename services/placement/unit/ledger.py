"""The one write of a batch that changes nodes, quota and allocations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from services.placement.state.fleet import Fleet
from services.placement.state.usage import Usage
from services.placement.unit.cell_state import CellState
from shared.ports.store import Write

_encode = msgspec.json.Encoder().encode

LEDGER = (
    "SELECT placement.change_ledger({0}::text[], {1}::text[], {2}::text[], {3}::text[],"
    " {4}::int[], {5}::bigint, {6}::text[], {7}::int[], {8}::int[], {9}::text[], {10}::int[],"
    " {11}::text[], {12}::text[], {13}::text[], {14}::int[], {15}::int[], {16}::bigint[],"
    " {17}::bigint[], {18}::bigint[], {epoch})"
)


def ledger_writes(fleet: Fleet, quota_names: set[str], state: CellState) -> list[Write]:
    """The one call that changes nodes, quota and allocations, in this order.

    None when nothing changed.
    """
    nodes = fleet.take_rows()
    quotas = [quota_row(name, state.usage) for name in sorted(quota_names)]
    rows = state.unit.ledger
    if not nodes and not quotas and not rows.charged and not rows.released_rows:
        return []
    columns: Sequence[Any] = list(zip(*rows.charged, strict=True)) or [()] * 13
    gone = (rows.released, list(rows.shrunk), list(rows.shrunk.values()), rows.released_rows)
    charged = (list(column) for column in columns)
    return [Write(LEDGER, (nodes, quotas, *gone, *charged))]


def quota_row(name: str, usage: Usage) -> str:
    """The limits of one node of the quota tree; a flavor no longer named has the limit nothing."""
    fact = usage.facts[name]
    row = {
        "name": name,
        "kind": fact.kind,
        "parent": fact.parent,
        "version": fact.version,
        "body": _encode(fact).decode(),
        "limits": [
            (flavor, *ceiling, *guaranteed) for flavor, ceiling, guaranteed in usage.rows(name)
        ],
    }
    return _encode(row).decode()
