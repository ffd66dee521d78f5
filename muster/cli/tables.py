"""A table that fits a terminal: columns are left out by rank, and no id, state or number is cut.

A pipe and `-o wide` get whole lines. On a terminal the most important columns come first: each is
kept that still fits. Where those of rank 0 alone are too wide, free text is shortened, with an
ellipsis; if that is not enough either, lines are longer than the terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
Style = Callable[[str | None, str], str]
"""Gets the text of a cell, None for the heading, and its padded form: what is written."""
GAP: Final = "  "
SHORTENED_CELLS: Final = 12
"""Free text is shortened to no less than this."""
_WIDTH_UNKNOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its heading, its text for an item, and whether only `wide` has it.

    Columns of the highest `rank` are left out first where a terminal is too narrow, those of rank
    0 never. `free` is for text that may be shortened: no id, state or number.
    """

    title: str
    text: Callable[[Json], str]
    wide: bool = False
    right: bool = False
    rank: int = 0
    free: bool = False


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None for a pipe or file."""
    if not sys.stdout.isatty():
        return None
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _WIDTH_UNKNOWN
    except OSError:
        return _WIDTH_UNKNOWN


def lines_of(
    items: Sequence[Json],
    columns: Sequence[Column],
    *,
    width: int | None,
    style: Style,
) -> tuple[list[str], list[str]]:
    """The lines of the table with its heading, and the titles of the columns left out.

    `width` None is without limit.
    """
    cells = [[printable(column.text(item)) for item in items] for column in columns]
    widths = [
        max(map(_width, (column.title, *texts)))
        for column, texts in zip(columns, cells, strict=True)
    ]
    kept = list(range(len(columns)))
    if width is not None:
        kept = _kept(columns, widths, width)
        _shorten(columns, cells, widths, kept, width)
    left_out = [column.title for index, column in enumerate(columns) if index not in kept]
    rows = [style(None, _line([columns[one].title for one in kept], columns, widths, kept))]
    rows += [
        _line([cells[one][row] for one in kept], columns, widths, kept, style)
        for row in range(len(items))
    ]
    return rows, left_out


def _kept(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """Indices of the columns that are shown, by rank as long as they fit."""
    chosen: list[int] = []
    used = 0
    for index in sorted(range(len(columns)), key=lambda one: columns[one].rank):
        needed = widths[index] + (len(GAP) if chosen else 0)
        if columns[index].rank == 0 or used + needed <= width:
            chosen.append(index)
            used += needed
    return sorted(chosen)


def _shorten(
    columns: Sequence[Column],
    cells: list[list[str]],
    widths: list[int],
    kept: Sequence[int],
    width: int,
) -> None:
    """Free text gives up what the line is too long by, as far as it can."""
    over = sum(widths[one] for one in kept) + len(GAP) * (len(kept) - 1) - width
    for index in kept:
        least = max(SHORTENED_CELLS, _width(columns[index].title))
        if columns[index].free and over > 0 and widths[index] > least:
            size = max(least, widths[index] - over)
            over -= widths[index] - size
            widths[index] = size
            cells[index] = [_cut(text, size) for text in cells[index]]


def _cut(text: str, size: int) -> str:
    if _width(text) <= size:
        return text
    while _width(text) > size - 1:
        text = text[:-1]
    return f"{text}…"


def _line(
    texts: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    kept: Sequence[int],
    style: Style | None = None,
) -> str:
    parts = []
    for text, index in zip(texts, kept, strict=True):
        room = " " * (widths[index] - _width(text))
        last = index == kept[-1] and not columns[index].right
        padded = room + text if columns[index].right else text + ("" if last else room)
        parts.append(style(text, padded) if style else padded)
    return GAP.join(parts).rstrip()


def _width(text: str) -> int:
    """Cells of a terminal; only what is not ASCII may take two, or none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def printable(text: str) -> str:
    """What would move the cursor or begin another line is shown as a question mark."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else "?" for one in text)
