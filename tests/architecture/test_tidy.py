"""Every module of the repository is tidy, and every rule is seen to find a planted fault."""

from pathlib import Path, PurePosixPath

import pytest

from deploy.local.cache import CHECKOUT
from deploy.local.services import SERVICES
from tests.architecture.tidy import findings, orphans

SHIPPED = ("services", "shared", "muster", "operations", "deploy")
ALL = (*SHIPPED, "migrations", "tests")
ENTRIES = {"muster.cli", "operations.cli", *(service.module for service in SERVICES)}

FAKES = "shared.adapters.memory"  # stand in for the real adapters in tests


def test_every_module_is_tidy():
    untidy = [f"{path}: {what}" for path, text in _sources(ALL).items() for what in findings(text)]

    assert untidy == []


def test_every_module_is_used():
    unused = orphans(_sources(SHIPPED), ENTRIES)

    assert [name for name in unused if not name.startswith(FAKES)] == []


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("x = 1\n", "the module has no docstring"),
        ('"""Said."""\n' + "x = 1\n" * 500, "the module has 501 lines, 500 are allowed"),
        ('"""Said."""\ndef f():\n' + "    x = 1\n" * 70, "f has 71 lines, 70 are allowed"),
        ('"""Said."""\n# TO' + "DO: later\n", "line 2 is unfinished: # TO" + "DO: later"),
    ],
)
def test_a_planted_fault_is_found(source: str, finding: str):
    assert list(findings(source)) == [finding]


def test_a_planted_orphan_is_found():
    sources = {
        PurePosixPath("shared/used.py"): "",
        PurePosixPath("shared/unused.py"): "import shared.unused",
        PurePosixPath("shared/__init__.py"): "",
        PurePosixPath("services/gateway/__main__.py"): "from shared import used",
    }

    assert orphans(sources, set()) == ["shared.unused"]


def _sources(folders: tuple[str, ...]) -> dict[PurePosixPath, str]:
    paths: list[Path] = [path for name in folders for path in (CHECKOUT / name).rglob("*.py")]
    return {PurePosixPath(path.relative_to(CHECKOUT)): path.read_text() for path in sorted(paths)}
