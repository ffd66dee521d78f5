"""What the handwritten documents name is there: files, make targets, modules, decisions."""

import importlib.util
import re
from pathlib import Path

import pytest

from deploy.local.cache import CHECKOUT

DOCUMENTS = [
    *(CHECKOUT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    CHECKOUT / "CHANGELOG.md",
    *sorted((CHECKOUT / "docs" / "adr").glob("0*.md")),
    *sorted((CHECKOUT / "docs" / "design").glob("*.md")),
]
TARGETS = re.compile(r"^([a-z][a-z%-]*):", re.MULTILINE)
TREES = ("", "shared")
"""Where a path may begin: `core/quota/cost.py` is `shared/core/quota/cost.py`."""


def missing(text: str, folder: Path = CHECKOUT) -> list[str]:
    """Names in `text` that stand for nothing; links are relative to `folder`, as a browser's."""
    return [*_files(text, folder), *_targets(text), *_modules(text), *_decisions(text)]


def _files(text: str, folder: Path) -> list[str]:
    linked = re.findall(r"\]\(([^)#:]+)\)", text)
    named = re.findall(r"`([\w-]+/[\w/.-]*\w)`", text)
    places = {path: [folder / path] for path in linked}
    places |= {path: [CHECKOUT / tree / path for tree in TREES] for path in named}
    return [path for path, where in places.items() if not any(one.exists() for one in where)]


def _targets(text: str) -> list[str]:
    makefile = (CHECKOUT / "Makefile").read_text()
    phony = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    known = {name for line in phony for name in line.split()}
    known |= {*TARGETS.findall(makefile)}
    benchmarks = CHECKOUT / "tests" / "benchmarks"
    programs = (
        *benchmarks.glob("*.py"),
        *(one.parent for one in benchmarks.glob("*/__main__.py")),
    )
    known |= {f"bench-{path.stem.replace('_', '-')}" for path in programs}
    named = re.findall(r"(?:`|^)make (?:-s )?([a-z][a-z-]*)", text, re.MULTILINE)
    return [f"make {name}" for name in named if name not in known]


def _modules(text: str) -> list[str]:
    named = re.findall(r"python -m ([a-z_][a-z0-9_.]*[a-z0-9_])", text)
    return [name for name in named if importlib.util.find_spec(name) is None]


def _decisions(text: str) -> list[str]:
    numbers = {int(number) for number in re.findall(r"\bADR (\d+)", text)}
    known = {int(path.name[:4]) for path in (CHECKOUT / "docs" / "adr").glob("0*.md")}
    return [f"ADR {number}" for number in sorted(numbers - known)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_what_a_document_names_is_there(path: Path):
    assert [] == missing(path.read_text(), path.parent)


def test_names_that_stand_for_nothing_are_found():
    text = """[a](docs/none.md), `shared/none.py`, `make none`, python -m services.none, ADR 999"""

    found = ["docs/none.md", "shared/none.py", "make none", "services.none", "ADR 999"]
    assert found == missing(text)


def test_every_decision_has_a_number_of_its_own():
    names = sorted(path.name for path in (CHECKOUT / "docs" / "adr").glob("0*.md"))

    assert len({name[:4] for name in names}) == len(names), names
