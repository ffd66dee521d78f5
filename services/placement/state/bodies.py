"""Tables of placement that keep one JSON body by name: what SQL never looks into."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from shared.ports.reader import Reader
from shared.ports.store import Write


@dataclass(frozen=True, slots=True)
class Bodies:
    """One such table; `key` is its primary key. Both are constants of the code."""

    table: str
    key: str

    async def read(self, reader: Reader) -> Sequence[str]:
        """All bodies, in order of the key."""
        rows = await reader.fetch(f"SELECT body FROM {self.table} ORDER BY {self.key}")  # noqa: S608  # constants
        return [row["body"] for row in rows]

    def writes(self, saved: Mapping[str, bytes], gone: Collection[str]) -> list[Write]:
        """Insert or replace `saved`, forget `gone`; nothing for nothing."""
        writes = []
        if saved:
            bodies = [body.decode() for body in saved.values()]
            writes.append(Write(self._save, (list(saved), bodies), len(saved)))
        if gone:
            writes.append(Write(self._forget, (list(gone),)))
        return writes

    @property
    def _save(self) -> str:
        return (
            f"INSERT INTO {self.table} ({self.key}, body, epoch) SELECT x.*, {{epoch}}"  # noqa: S608  # constants
            f" FROM unnest({{0}}::text[], {{1}}::text[]) AS x ON CONFLICT ({self.key})"
            " DO UPDATE SET body = excluded.body, epoch = excluded.epoch RETURNING 1"
        )

    @property
    def _forget(self) -> str:
        return f"DELETE FROM {self.table} WHERE {self.key} = ANY ({{0}}::text[]) RETURNING 1"  # noqa: S608  # constants
