"""The import contracts of pyproject.toml find what they forbid: each is shown a planted fault."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.cache import CHECKOUT
from deploy.local.wheel import PACKAGES

PLANTED = [
    ("shared/core/planted.py", "import random", "the core is pure"),
    ("shared/core/planted.py", "import shared.ports", "shared: runtime -> adapters"),
    ("shared/ports/planted.py", "import shared.adapters", "shared: runtime -> adapters"),
    ("shared/undeclared/__init__.py", "", "shared: runtime -> adapters"),
    ("shared/core/planted.py", "import services", "services stand on shared"),
    ("services/one/__init__.py", "import services.two", "services are independent"),
    ("shared/runtime/planted.py", "import aiokafka", "only its adapter knows aiokafka"),
    ("services/one/__init__.py", "import asyncpg", "only its adapter knows asyncpg"),
    ("muster/planted.py", "import shared.core", "users install muster alone"),
    ("operations/check/planted.py", "import shared.core", "the checker shares no code"),
    ("shared/ports/planted.py", "import shared.ports.other", "no cycles"),
]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


@pytest.fixture(scope="session")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages with their folders and nothing in them, and the contracts."""
    folder = tmp_path_factory.mktemp("layers")
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    layers = ("core", "events", "ports", "adapters", "simulator", "runtime")
    shared = [f"shared/{layer}" for layer in layers]
    for name in (*PACKAGES, *shared, "services/one", "services/two", "operations/check"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").touch()
    (folder / "shared/ports/other.py").write_text("import shared.ports.planted")
    return folder


@pytest.mark.parametrize(("path", "source", "contract"), PLANTED)
def test_a_planted_import_breaks_its_contract(
    skeleton: Path, tmp_path: Path, path: str, source: str, contract: str
):
    shutil.copytree(skeleton, tmp_path, dirs_exist_ok=True)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(source)

    report = _lint(tmp_path)

    broken = [line for line in report.splitlines() if line.endswith("BROKEN")]
    assert any(line.startswith(contract) for line in broken), report


def test_without_a_fault_all_contracts_are_kept(skeleton: Path):
    assert "0 broken" in _lint(skeleton)


def _lint(folder: Path) -> str:
    command = [sys.executable, "-c", LINT, "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
