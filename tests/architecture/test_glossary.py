"""The glossary names what is there: each word in code font of its last column."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?!Term|---)(?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<code>[^|]+) \|$", re.MULTILINE
)


def test_what_the_glossary_names_is_there() -> None:
    rows = list(ROW.finditer((ROOT / "docs" / "glossary.md").read_text()))
    folders = [ROOT / name for name in ("shared", "services")]
    sources = {path: path.read_text() for folder in folders for path in folder.rglob("*.py")}
    code = "\n".join(sources.values())
    names = {path.name for path in sources}
    missing = [
        word
        for row in rows
        for word in re.findall(r"`([^`]+)`", row["code"])
        if not (
            word in names
            or (ROOT / word).is_dir()
            or re.search(rf"\b{re.escape(word.rpartition('.')[2])}\b", code)
        )
    ]

    assert [] == missing
    assert len(rows) >= 50
    terms = [row["term"] for row in rows]
    assert sorted({*terms}) == sorted(terms)
