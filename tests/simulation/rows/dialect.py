"""The services' PostgreSQL statements in SQLite's words: only what they use of both.

A list argument travels as JSON: `unnest` of several is one table of JSON rows, `= ANY` of one
looks into it. Casts go, but for what their place needs no cast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, Final

import msgspec

TYPES: Final = {
    "text[]": "text_array",
    "bigint": "integer",
    "numeric": "text",
    "json": "text",
}
"""What a column of another type is declared as; `boolean` and `text_array` have converters."""
_PLACE: Final = re.compile(r"\$(\d+)")
_CAST: Final = re.compile(r"::(?:\w+\[\]|\w+\(\d+\)|\w+)")
_UNNEST: Final = re.compile(
    r"unnest\(((?:\{\d+\}(?:, ?)?)+)\) AS (\w+)(?:\(([\w, ]+)\))?(?= (?:(ON CONFLICT)|\w)|$)"
)
_ANY_ARGUMENT: Final = re.compile(r"= ANY ?\((\{\d+\})\)")
_ANY_ARRAY: Final = re.compile(r"= ANY \(ARRAY\[([^\]]*)\]\)")
_ARGUMENT: Final = re.compile(r"\{(\w+)\}")


class Statement(msgspec.Struct, frozen=True):
    """SQL for SQLite; `unnested` are the arguments that make one table, by its number."""

    text: str
    unnested: Sequence[Sequence[int]]

    def bind(self, arguments: Sequence[Any], **named: object) -> Mapping[str, Any]:
        """Values of the placeholders."""
        values = {f"p{number}": _value(one) for number, one in enumerate(arguments)}
        tables = {
            f"t{number}": _json([*zip_longest(*(arguments[one] for one in indexes))])
            for number, indexes in enumerate(self.unnested)
        }
        return values | tables | named


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _value(value: object) -> object:
    return _json(value) if isinstance(value, (list, tuple)) else value


@cache
def translated(sql: str) -> Statement:
    """A statement with PostgreSQL's `$1` or the builder's `{0}`, `{epoch}`."""
    sql = _PLACE.sub(lambda found: f"{{{int(found[1]) - 1}}}", sql)
    sql = _CAST.sub("", sql)
    unnested: list[Sequence[int]] = []

    def table(found: re.Match[str]) -> str:
        indexes = [int(one) for one in _ARGUMENT.findall(found[1])]
        names = found[3].split(", ") if found[3] else [f"c{one}" for one in indexes]
        columns = ", ".join(
            f"json_extract(value, '$[{at}]') AS {name}" for at, name in enumerate(names)
        )
        unnested.append(indexes)
        made = f"(SELECT {columns} FROM json_each(:t{len(unnested) - 1})) AS {found[2]}"
        return f"{made} WHERE true" if found[4] else made

    sql = _UNNEST.sub(table, sql)
    sql = _ANY_ARGUMENT.sub(r"IN (SELECT value FROM json_each(\1))", sql)
    sql = _ARGUMENT.sub(lambda found: f":{_name(found[1])}", sql)
    return Statement(sql, unnested)


def _name(place: str) -> str:
    return f"p{place}" if place.isdigit() else place


def created(tables: str) -> str:
    """`CREATE TABLE` statements as PostgreSQL's catalog tells them."""
    tables = tables.replace("'{}'::text[]", "'[]'").replace("!~~", "NOT LIKE")
    lines = (_declared(line) for line in tables.splitlines())
    return _ANY_ARRAY.sub(r"IN (\1)", _CAST.sub("", "\n".join(lines)))


def _declared(line: str) -> str:
    name, _, rest = line.strip().partition(" ")
    kind, _, more = rest.partition(" ")
    if name in {"CREATE", "CONSTRAINT", ");"} or kind not in TYPES:
        return line
    return f"    {name} {TYPES[kind]} {more}"
