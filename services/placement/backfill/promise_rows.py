"""Rows of promises and of those that broke, written when one changes; which nodes are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from services.placement.backfill.promise_news import Broken
from services.placement.state.bodies import Bodies
from shared.core.backfill.promise import Promise, pins_of
from shared.events.nodes import KeptFor
from shared.ports.reader import Reader
from shared.ports.store import Write

ROWS: Final = Bodies("placement.promise", "workload_id")
BROKEN_ROWS: Final = Bodies("placement.broken_promise", "workload_id")
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Promise)
_broken: Final = msgspec.json.Decoder(Broken)
_Row = TypeVar("_Row", Promise, Broken)


async def read_promises(reader: Reader) -> list[Promise]:
    """All that were promised when the last unit was written."""
    return [_decoder.decode(body) for body in await ROWS.read(reader)]


async def read_broken(reader: Reader) -> list[Broken]:
    """All that were not kept, and not told when the last unit was written."""
    return [_broken.decode(body) for body in await BROKEN_ROWS.read(reader)]


def row_writes(rows: Bodies, written: Mapping[str, _Row], now: Mapping[str, _Row]) -> list[Write]:
    """What makes the rows those of `now`, if they are those of `written`."""
    saved = {name: _encode(one) for name, one in now.items() if one != written.get(name)}
    return rows.writes(saved, [name for name in written if name not in now])


def kept_nodes(promises: Mapping[str, Promise]) -> tuple[KeptFor, ...]:
    """As it is told to others, in order of the pins."""
    nodes: dict[str, list[str]] = {}
    for node, promise in pins_of(promises).items():
        nodes.setdefault(promise.workload_id, []).append(node)
    kept = [
        KeptFor(workload_id=name, pin=promises[name].number, nodes=tuple(sorted(mine)))
        for name, mine in nodes.items()
    ]
    return tuple(sorted(kept, key=lambda one: one.pin))
