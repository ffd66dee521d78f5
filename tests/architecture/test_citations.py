"""Code and documents cite what a reader can open: papers, APIs, and files of this repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(
    r"\b(?:design|mission|placement|reliability|telemetry|mig-and-telemetry|ecosystem|peers|style"
    r"|recipes)\.md\b|\bshared/[a-z-]+\.md\b"
)


def cited(text: str) -> list[str]:
    """Documents of the specification, which is not part of the repository."""
    return ELSEWHERE.findall(text)


def test_nothing_cites_what_is_not_in_the_repository() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.toml", "*.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split()]
    others = (path for path in paths if path.exists() and path != Path(__file__))
    found = {str(path): cited(path.read_text()) for path in others}

    assert {} == {path: names for path, names in found.items() if names}
    assert len(paths) > 1000


def test_a_citation_is_seen() -> None:
    assert ["design.md", "shared/kubernetes.md"] == cited(
        "(design.md 2), shared/kubernetes.md, a.md"
    )
