"""docs/adr/README.md: every decision, its title and status, read from the records themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[2] / "docs" / "adr"
RECORDS: Final = "[0-9][0-9][0-9][0-9]-*.md"
STATUS: Final = re.compile(r"^Status: (.*?)\.?$", re.MULTILINE)
HEADER: Final = """\
<!-- Generated from the titles of the records by `make generated`: change those, not this file. -->

# Decisions

One page each: Context, Decision, Consequences, Alternatives refused.

| ADR | decides | status |
|---|---|---|
"""


def render() -> str:
    """The text of the document."""
    return HEADER + "".join(f"{_row(path)}\n" for path in sorted(FOLDER.glob(RECORDS)))


def _row(path: Path) -> str:
    """A line of the table.

    Raises:
        ValueError: the record does not begin with its own number and a title, or has no status.
    """
    text = path.read_text()
    number, _, title = text.partition("\n")[0].removeprefix("# ").partition(". ")
    if not title or number != str(int(path.name[:4])):
        raise ValueError(f"{path.name} does not begin with `# {int(path.name[:4])}. TITLE`")
    status = STATUS.search(text)
    if status is None:
        raise ValueError(f"{path.name} has no line `Status: ...`")
    return f"| [{number}]({path.name}) | {_cell(title)} | {_cell(status[1])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
