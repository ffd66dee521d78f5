"""Migrations are one line: two branches that took the same number would leave no way up."""

from __future__ import annotations

import re
from pathlib import Path

VERSIONS = Path(__file__).parents[2] / "migrations" / "versions"
LINE = re.compile(r'^(revision|down_revision)\b[^=]*= "?(\w+)"?$', re.MULTILINE)


def test_every_migration_follows_the_one_before():
    files = sorted(VERSIONS.glob("0*.py"))
    found = [dict(LINE.findall(path.read_text())) for path in files]

    names = [one["revision"] for one in found]
    assert names == [path.name[:4] for path in files]
    assert ["None", *names[:-1]] == [one["down_revision"] for one in found]
