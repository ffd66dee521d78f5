"""Docstrings and comments speak of things as things: who, whose and nobody are for persons."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("shared", "services", "operations", "muster")
PERSONS = re.compile(
    r"\b(?:who|whom|whose|whoever|nobody|somebody|everybody|anybody|he|his|him)\b", re.IGNORECASE
)
LINES_MAX = 60
"""Persons there are, too: users, operators, owners."""


def lines_of_persons(source: str) -> Iterator[str]:
    """Lines of docstrings and comments that have such a word."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        prose = token.type == tokenize.COMMENT or token.string.startswith(('"""', 'r"""'))
        if prose:
            yield from (line for line in token.string.split("\n") if PERSONS.search(line))


def test_things_are_spoken_of_as_things() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in lines_of_persons(path.read_text())
    ]

    assert len(found) <= LINES_MAX, found


def test_a_thing_that_is_spoken_of_as_a_person_is_seen() -> None:
    source = 'def f() -> None:\n    """Who waits."""\n    # nobody asks\n    x = "who"\n'

    assert ['"""Who waits."""', "# nobody asks"] == list(lines_of_persons(source))
