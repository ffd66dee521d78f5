"""Writes the tables of figures from the JSON of the full runs in `docs/benchmarks`.

The README has the headlines, docs/benchmarks/README.md all of them.

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
ALL: Final = RESULTS / "README.md"
HEAD: Final = """\
# Figures

Each row is a figure of a full run, whose JSON lies beside this file; `make bench` runs short forms
against their ranges (CONTRIBUTING.md tells how to run the full ones). Data: openb, Philly,
Kalos, Lingjun as published. Baselines are ours, written from the papers, on the same arrivals in
the same run. What is wanted and not reached stands here as well.

"""
BEGIN: Final = "<!-- figures: written by `make generated` from docs/benchmarks -->\n"
END: Final = "<!-- end of figures -->\n"


def table(*, headlines: bool = False) -> str:
    """The rows of all figures whose full run is there, or of the headlines alone."""
    figures = [one for one in load_ranges()[1] + load_full() if one.headline or not headlines]
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
    return before + BEGIN + table(headlines=True) + END + after


def main() -> None:
    """Write the table, or say that it is stale."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for path, then in ((README, written(README.read_text())), (ALL, HEAD + table())):
        if options.write:
            path.write_text(then)
        elif not path.exists() or path.read_text() != then:
            sys.exit(f"{path}: the table of figures is stale: run `make generated`")


if __name__ == "__main__":
    main()
