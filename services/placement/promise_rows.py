"""The rows of placement.promise, written when one changes; and which nodes promises keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from services.placement.bodies import Bodies
from shared.core.backfill.promise import Promise, pins_of
from shared.events.nodes import KeptFor
from shared.ports.reader import Reader
from shared.ports.store import Write

ROWS: Final = Bodies("placement.promise", "workload_id")
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Promise)


async def read_promises(reader: Reader) -> list[Promise]:
    """All that were promised when the last unit was written."""
    return [_decoder.decode(body) for body in await ROWS.read(reader)]


def promise_writes(written: Mapping[str, Promise], now: Mapping[str, Promise]) -> list[Write]:
    """What makes the rows those of `now`, if they are those of `written`."""
    saved = {name: _encode(one) for name, one in now.items() if one != written.get(name)}
    return ROWS.writes(saved, [name for name in written if name not in now])


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
