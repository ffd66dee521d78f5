"""How answers are shown: tables for people, JSON, YAML or names for programs.

Results go to stdout, messages to stderr. Colour only on a terminal and without NO_COLOR.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

from muster.cli.tables import Column, lines_of, terminal_width

__all__ = [
    "Column",
    "Format",
    "age",
    "field",
    "gpus",
    "inline",
    "local_time",
    "note",
    "show_items",
    "show_value",
]

Json = dict[str, Any]


class Format(StrEnum):
    """`-o`: what is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def field(name: str, default: str = "") -> Callable[[Json], str]:
    """Text of one field."""
    return lambda item: _plain(item.get(name), default)


def reason_of(item: Json) -> str:
    """Code of the reason, and in brackets the pod's own, such as "failed (OOMKilled)"."""
    code, pod_reason = item.get("reason") or "", item.get("pod_reason")
    return f"{code} ({pod_reason})" if pod_reason else str(code)


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
) -> None:
    """A list in the format asked for; `name` is the field that names an item."""
    if form is Format.NAME:
        for item in items:
            print(item[name])
    elif form in (Format.JSON, Format.YAML):
        show_value({"items": list(items)}, form)
    elif not items:
        note(empty)
    else:
        shown = [one for one in columns if form is Format.WIDE or not one.wide]
        _table(items, shown, whole=form is Format.WIDE)


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


def inline(value: Any) -> str:  # noqa: ANN401  # any JSON
    """One value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False)


def note(text: str) -> None:
    """A message for people, never part of the result."""
    print(text, file=sys.stderr)


def _table(items: Sequence[Json], columns: Sequence[Column], *, whole: bool) -> None:
    width = terminal_width()
    style = _styled if width is not None and not os.environ.get("NO_COLOR") else _plain_text
    lines, left_out = lines_of(items, columns, width=None if whole else width, style=style)
    print("\n".join(lines))
    if left_out:
        note(f"Left out at {width} columns: {', '.join(left_out)}; -o wide shows them.")


_STYLES: Final[dict[str | None, str]] = {
    None: "1",  # a heading
    "running": "32",
    "succeeded": "32",
    "queued": "33",
    "held": "33",
    "failed": "31",
    "rejected": "31",
    "evicting": "35",
}
"""How a terminal shows a word: bold, green, yellow, red, magenta (ECMA-48)."""


def _plain_text(_word: str | None, text: str) -> str:
    return text


def _styled(word: str | None, text: str) -> str:
    code = _STYLES.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


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
    """A moment on the clock of the reader, such as "2026-11-21 14:05:09"."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment_ms / 1000))


def gpus(milli: int | None) -> str:
    """Milli-GPU as GPUs: 8000 -> "8", 250 -> "0.25"."""
    if milli is None:
        return ""
    whole, rest = divmod(milli, 1000)
    return str(whole) if not rest else f"{milli / 1000:.3f}".rstrip("0")
