"""docs/adr/README.md: every decision by its number and title, read from the records themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "docs" / "adr"
RECORDS: Final = "[0-9][0-9][0-9][0-9]-*.md"
HEADER: Final = """\
<!-- Generated from the titles of the records by `make generated`: change those, not this file. -->

# Decisions

One page each: Context, Decision, Consequences, Alternatives refused.

| ADR | decides |
|---|---|
"""


def render() -> str:
    """The text of the document."""
    return HEADER + "".join(f"{_row(path)}\n" for path in sorted(FOLDER.glob(RECORDS)))


def _row(path: Path) -> str:
    """A line of the table.

    Raises:
        ValueError: the record does not begin with its own number and a title.
    """
    number, _, title = path.read_text().partition("\n")[0].removeprefix("# ").partition(". ")
    if not title or number != str(int(path.name[:4])):
        raise ValueError(f"{path.name} does not begin with `# {int(path.name[:4])}. TITLE`")
    return f"| [{number}]({path.name}) | {title.replace('|', chr(92) + '|')} |"
