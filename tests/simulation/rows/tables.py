"""The own tables of one service: SQLite in memory, with PostgreSQL's types, keys and checks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from shared.ports.errors import Rejected, Stale
from shared.ports.store import Write
from tests.simulation.rows import ledger
from tests.simulation.rows.catalog import FILE
from tests.simulation.rows.dialect import created, translated

Row = Mapping[str, Any]

sqlite3.register_converter("boolean", lambda value: value == b"1")
sqlite3.register_converter("text_array", msgspec.json.decode)


@cache
def _created(schema: str) -> str:
    tables = FILE.read_text().split(";\n")
    return created(";\n".join(one for one in tables if one.startswith(f"CREATE TABLE {schema}.")))


class Tables:
    """The tables of a schema, empty."""

    def __init__(self, schema: str) -> None:
        self._rows = rows = sqlite3.connect(
            ":memory:", isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES
        )
        rows.row_factory = _row
        rows.create_function("bit_count", 1, int.bit_count, deterministic=True)
        rows.create_function("greatest", 2, max, deterministic=True)
        rows.create_function("string_to_array", 2, _parted, deterministic=True)
        rows.execute(f"ATTACH ':memory:' AS {schema}")
        rows.executescript(_created(schema))

    def apply(self, writes: Sequence[Write], epoch: int) -> None:
        """All or nothing.

        Raises:
            Stale: a statement changes another number of rows than it expects.
            Rejected: a value, key or check of a table refuses it.
        """
        self._rows.execute("BEGIN")
        try:
            for write in writes:
                self._write(write, epoch)
        except sqlite3.IntegrityError as error:
            self._rows.execute("ROLLBACK")
            raise Rejected(str(error)) from error
        except Stale:
            self._rows.execute("ROLLBACK")
            raise
        self._rows.execute("COMMIT")

    def _write(self, write: Write, epoch: int) -> None:
        twin = ledger.WRITES.get(write.sql)
        if twin is not None:
            return twin(self._rows, epoch, *write.arguments)
        statement = translated(write.sql)
        values = statement.bind(write.arguments, epoch=epoch)
        changed = len(self._rows.execute(statement.text, values).fetchall())
        if write.expect is not None and changed != write.expect:
            raise Stale(f"{write.expect} rows expected, {changed} changed")
        return None

    def fetch(self, sql: str, *arguments: Any) -> list[Row]:  # any SQL value
        """Rows of a query."""
        twin = ledger.READS.get(sql)
        if twin is not None:
            return twin(self._rows)
        statement = translated(sql)
        return self._rows.execute(statement.text, statement.bind(arguments)).fetchall()


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return dict(zip((one[0] for one in cursor.description), values, strict=True))


def _parted(text: str, by: str) -> str:
    return msgspec.json.encode(text.split(by) if text else []).decode()
