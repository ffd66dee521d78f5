"""Writes the README's table of figures from the JSON of the full runs in `docs/benchmarks`.

python -m tests.benchmarks.readme --write      # or --check, as `make check` does
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from tests.benchmarks.suite import Figure, load_full, load_ranges, look_up

README: Final = Path("README.md")
RESULTS: Final = Path("docs/benchmarks")
BEGIN: Final = "<!-- figures: written by `make generated` from docs/benchmarks -->\n"
END: Final = "<!-- end of figures -->\n"


def table() -> str:
    """The rows of all figures whose full run is there."""
    figures = load_ranges()[1] + load_full()
    head = "| figure | Muster | wanted | beside it, in the same run |\n|---|---|---|---|\n"
    return head + "".join(map(_row, figures))


def _row(figure: Figure) -> str:
    path = RESULTS / f"{figure.benchmark}.json"
    if not path.exists() or not figure.wanted:
        return ""
    document = json.loads(path.read_text())
    value = look_up(document, figure.path)
    beside = ", ".join(
        f"{name} {_shown(look_up(document, where), figure.unit)}"
        for name, where in figure.beside.items()
    )
    title = f"{figure.title} (`{figure.benchmark}`)"
    return f"| {title} | **{_shown(value, figure.unit)}** | {figure.wanted} | {beside} |\n"


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{text} {unit}".rstrip()


def written(text: str) -> str:
    """`text` with the table of now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table() + END + after


def main() -> None:
    """Write the table, or say that it is stale."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    now = README.read_text()
    then = written(now)
    if options.write:
        README.write_text(then)
    elif now != then:
        sys.exit("README.md: the table of figures is stale: run `make generated`")


if __name__ == "__main__":
    main()
