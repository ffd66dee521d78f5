"""A dictionary that outlives the process, for one row per unit of work.

What a batch changed is appended as one row; `load` replays the rows, and the last value of a key
wins. When the log has grown much longer than what lives, it is written anew, so a change costs
O(1) amortised and a start O(live). For services that keep every workload in memory: a table row
for each change of each would cost more than all else that they do. The table is
`<schema>.journal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from shared.ports.reader import Reader
from shared.ports.store import Write

ROW_ENTRIES_MAX: Final = 5_000
SLACK_ENTRIES: Final = 20_000
"""Entries that the log may hold beyond twice what lives, before it is written anew."""

APPEND: Final = (
    "INSERT INTO {schema}.journal (shard, seq, entries, body, epoch)"
    " SELECT {{shard}}, s, n, b, {{epoch}}"
    " FROM unnest({{0}}::bigint[], {{1}}::int[], {{2}}::bytea[]) AS r(s, n, b) RETURNING 1"
)
FORGET: Final = "DELETE FROM {schema}.journal WHERE shard = {{shard}} AND seq < {{0}} RETURNING 1"
READ: Final = "SELECT seq, entries, body FROM {schema}.journal WHERE shard = $1 ORDER BY seq"

Key = tuple[str, str]
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(list[tuple[str, str, msgspec.Raw]])


class Journal:
    """Values by (kind, key); a value of None is a key that is gone."""

    def __init__(self, schema: str, decoders: Mapping[str, msgspec.json.Decoder[Any]]) -> None:
        self._append_sql = APPEND.format(schema=schema)
        self._forget_sql = FORGET.format(schema=schema)
        self._read_sql = READ.format(schema=schema)
        self._decoders = decoders
        self._live: dict[Key, Any] = {}
        self._dirty: dict[Key, None] = {}
        self._entries = 0
        self._next_seq = 1

    def put(self, kind: str, key: str, value: object) -> None:
        """Remember `value`, which may still change within this batch."""
        self._live[kind, key] = value
        self._dirty[kind, key] = None

    def drop(self, kind: str, key: str) -> None:
        """Forget a key, known or not."""
        self._live.pop((kind, key), None)
        self._dirty[kind, key] = None

    def of_kind(self, kind: str) -> dict[str, Any]:
        """All values of one kind; O(live)."""
        return {key: value for (one, key), value in self._live.items() if one == kind}

    def writes(self) -> list[Write]:
        """What makes the changes since the last call last; at most one INSERT and one DELETE."""
        if not self._dirty:
            return []
        changed = list(self._dirty)
        self._dirty = {}
        if self._entries + len(changed) <= 2 * len(self._live) + SLACK_ENTRIES:
            return [self._append(changed)]
        forget = Write(self._forget_sql, (self._next_seq,))
        self._entries = 0
        return [self._append(list(self._live)), forget]

    def _append(self, keys: Sequence[Key]) -> Write:
        parts = [keys[at : at + ROW_ENTRIES_MAX] for at in range(0, len(keys), ROW_ENTRIES_MAX)]
        first = self._next_seq
        self._next_seq += len(parts)
        self._entries += len(keys)
        return Write(
            self._append_sql,
            (
                list(range(first, self._next_seq)),
                [len(part) for part in parts],
                [_encoder.encode([(*key, self._live.get(key)) for key in part]) for part in parts],
            ),
            expect=len(parts),
        )

    async def load(self, reader: Reader, shard: str) -> None:
        """Replay the rows into an empty journal."""
        raw: dict[Key, msgspec.Raw] = {}
        for row in await reader.fetch(self._read_sql, shard):
            self._next_seq = row["seq"] + 1
            self._entries += row["entries"]
            for kind, key, value in _decoder.decode(row["body"]):
                raw[kind, key] = value
        for place, value in raw.items():
            if bytes(value) != b"null":
                decoder = self._decoders.get(place[0])
                # A kind of a newer version is kept as it is, so that a version can go back.
                self._live[place] = decoder.decode(value) if decoder else value.copy()
