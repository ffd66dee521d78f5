"""The journal of a memory: what a newer version wrote outlives an older one."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.ports.store import Write
from shared.runtime.journal import APPEND, FORGET, Journal

NEW, OLD = "new", "old"
KEYS = 500
DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    OLD: msgspec.json.Decoder(int),
    NEW: msgspec.json.Decoder(dict[str, int]),
}


class Rows:
    """The table of one journal."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, Any]] = {}

    def apply(self, writes: list[Write]) -> None:
        for one in sorted(writes, key=lambda one: one.sql != FORGET.format(schema="test")):
            if one.sql == APPEND.format(schema="test"):
                for seq, entries, body in zip(*one.arguments, strict=True):
                    self.rows[seq] = {"seq": seq, "entries": entries, "body": body}
            else:
                (first,) = one.arguments
                self.rows = {seq: row for seq, row in self.rows.items() if seq >= first}

    async def fetch(self, _sql: str, *_: object) -> list[dict[str, Any]]:
        return [self.rows[seq] for seq in sorted(self.rows)]


async def loaded(rows: Rows, *kinds: str) -> Journal:
    journal = Journal("test", {kind: DECODERS[kind] for kind in kinds})
    await journal.load(rows, "cell-0")
    return journal


async def test_an_older_version_keeps_kinds_that_it_does_not_know():
    rows = Rows()
    newer = await loaded(rows, OLD, NEW)
    newer.put(OLD, "a", 1)
    newer.put(NEW, "b", {"x": 2})
    newer.put(NEW, "gone", {"x": 3})
    rows.apply(newer.writes())
    newer.drop(NEW, "gone")
    rows.apply(newer.writes())

    older = await loaded(rows, OLD)
    assert older.of_kind(OLD) == {"a": 1}
    older.drop(OLD, "a")
    first = max(rows.rows)
    for number in range(1_000):
        for key in range(KEYS):
            older.put(OLD, f"a{key}", number)
        rows.apply(older.writes())
        if min(rows.rows) > first:
            break
    assert min(rows.rows) > first, "it was never written anew"

    again = await loaded(rows, OLD, NEW)
    assert again.of_kind(NEW) == {"b": {"x": 2}}
    assert again.of_kind(OLD) == {f"a{key}": number for key in range(KEYS)}
