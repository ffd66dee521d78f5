"""How answers are shown: tables for people, JSON, YAML or names for programs.

Results go to stdout, messages to stderr. Colour only on a terminal and without NO_COLOR (rich
sees to both).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Json = dict[str, Any]


class Format(StrEnum):
    """`-o`: what is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its heading, its text for an item, and whether only `wide` has it."""

    title: str
    text: Callable[[Json], str]
    wide: bool = False
    right: bool = False


def field(name: str, default: str = "") -> Callable[[Json], str]:
    """Text of one field."""
    return lambda item: _plain(item.get(name), default)


def _plain(value: Any, default: str) -> str:  # noqa: ANN401  # any JSON
    if value is None or value == "":
        return default
    if isinstance(value, list):
        return ",".join(str(one) for one in value)
    return str(value)


def show_items(
    items: Sequence[Json],
    form: Format,
    columns: Sequence[Column],
    *,
    name: str = "name",
    empty: str = "Nothing.",
    whole: bool = False,
) -> None:
    """A list in the format asked for; `name` is the field that names an item.

    `whole` is for what must not be cut off at the edge of a terminal, as what is shown once.
    """
    if form is Format.NAME:
        for item in items:
            print(item[name])
    elif form in (Format.JSON, Format.YAML):
        show_value({"items": list(items)}, form)
    elif not items:
        note(empty)
    else:
        shown = [one for one in columns if form is Format.WIDE or not one.wide]
        _table(items, shown, whole=whole)


def show_documents(documents: Sequence[Json], form: Format) -> None:
    """Documents as they can be read again: one after the other in YAML, a list in JSON."""
    if form is Format.YAML:
        print("---\n".join(yaml_of(one) for one in documents), end="")
    else:
        show_value(list(documents), form)


def yaml_of(value: Any) -> str:  # noqa: ANN401  # any JSON
    """One value as YAML, with fields in their order."""
    import yaml

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def show_value(value: Any, form: Format) -> None:  # noqa: ANN401  # any JSON
    """One value as JSON, or YAML when asked for."""
    if form is Format.YAML:
        print(yaml_of(value), end="")
    else:
        print(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A message for people, never part of the result."""
    print(text, file=sys.stderr)


def _table(items: Sequence[Json], columns: Sequence[Column], *, whole: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=not column.wide,
            overflow="fold",
        )
    for item in items:
        table.add_row(*(_styled(Text, column.text(item)) for column in columns))
    console = Console(highlight=False)
    if whole or not console.is_terminal:
        console.width = 1000  # pipes get whole lines
    console.print(table)


_STYLES = {
    "running": "green",
    "succeeded": "green",
    "queued": "yellow",
    "held": "yellow",
    "failed": "red",
    "rejected": "red",
    "evicting": "magenta",
}


def _styled(text: Any, value: str) -> Any:  # noqa: ANN401  # rich is imported late
    return text(value, style=_STYLES.get(value, ""))


def age(milliseconds: int | None, now_ms: int) -> str:
    """Time since, such as "42s", "7m", "3h", "2d"; empty for none."""
    if not milliseconds:
        return ""
    seconds = max(0, now_ms - milliseconds) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def local_time(moment_ms: int) -> str:
    """A moment on the clock of whoever reads it, such as "2026-11-21 14:05:09"."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment_ms / 1000))


def gpus(milli: int | None) -> str:
    """Milli-GPU as GPUs: 8000 -> "8", 250 -> "0.25"."""
    if milli is None:
        return ""
    whole, rest = divmod(milli, 1000)
    return str(whole) if not rest else f"{milli / 1000:.3f}".rstrip("0")
