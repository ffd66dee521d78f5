"""The rows of placement.promise: written when a promise changes, read after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from shared.core.backfill import Promise
from shared.ports.reader import Reader
from shared.ports.store import Write

SAVE: Final = (
    "INSERT INTO placement.promise AS p (workload_id, body, epoch)"
    " SELECT x.*, {epoch} FROM unnest({0}::text[], {1}::text[]) AS x"
    " ON CONFLICT (workload_id) DO UPDATE SET body = excluded.body, epoch = excluded.epoch"
    " RETURNING 1"
)
FORGET: Final = "DELETE FROM placement.promise WHERE workload_id = ANY ({0}::text[]) RETURNING 1"
READ: Final = "SELECT body FROM placement.promise ORDER BY workload_id"

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Promise)


async def read_promises(reader: Reader) -> list[Promise]:
    """All that were promised when the last unit was written."""
    return [_decoder.decode(row["body"]) for row in await reader.fetch(READ)]


def promise_writes(written: Mapping[str, Promise], now: Mapping[str, Promise]) -> list[Write]:
    """What makes the rows those of `now`, if they are those of `written`."""
    saved = [one for name, one in now.items() if one != written.get(name)]
    gone = [name for name in written if name not in now]
    writes = []
    if saved:
        names = [one.workload_id for one in saved]
        bodies = [_encoder.encode(one).decode() for one in saved]
        writes.append(Write(SAVE, (names, bodies), len(saved)))
    if gone:
        writes.append(Write(FORGET, (gone,)))
    return writes
