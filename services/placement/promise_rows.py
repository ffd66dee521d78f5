"""The rows of placement.promise: written when a promise changes, read after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from services.placement.bodies import Bodies
from shared.core.backfill import Promise
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
