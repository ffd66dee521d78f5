"""Packages are small, tell where to begin, and are entered through their face.

A face is what `__init__` names in `__all__`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOUSES = [ROOT / name for name in ("shared/core", "services/placement", "services/gateway")]
PACKAGES = sorted(
    path.parent
    for house in HOUSES
    for path in house.rglob("__init__.py")
    if path.parent not in HOUSES
)
NAMES_MAX = 15
MODULES_MAX = 15
TOP_MODULES_MAX = 5
USERS = ("services", "shared", "operations")


def face_of(source: str) -> list[str]:
    """The names in `__all__`; none where it is missing."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def reached(source: str) -> Iterator[str]:
    """Modules from which something is imported by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def past(faces: list[str], module: str, source: str) -> list[str]:
    """What `module` imports from inside a package with a face, to which it does not belong.

    A package inside another is entered by its own name.
    """
    return [
        name
        for name in reached(source)
        for package in faces
        if name.rpartition(".")[0] == package
        and not (ROOT / name.replace(".", "/")).is_dir()
        and not module.startswith(f"{package}.")
    ]


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.fixture(scope="module")
def faces() -> dict[str, list[str]]:
    """The packages that have a face, by their dotted name."""
    found = {_name(path): face_of((path / "__init__.py").read_text()) for path in PACKAGES}
    return {package: names for package, names in found.items() if names}


def test_nobody_reaches_past_a_face(faces: dict[str, list[str]]) -> None:
    modules = [path for folder in USERS for path in (ROOT / folder).rglob("*.py")]
    found = {
        name: inside
        for path in modules
        if (inside := past([*faces], name := _name(path), path.read_text()))
    }

    assert {} == found
    assert len(faces) >= 10


def test_a_face_has_few_names(faces: dict[str, list[str]]) -> None:
    wide = {package: len(names) for package, names in faces.items() if len(names) > NAMES_MAX}

    assert {} == wide


@pytest.mark.parametrize("house", HOUSES, ids=_name)
def test_at_the_top_lie_few_modules(house: Path) -> None:
    modules = [path.name for path in house.glob("*.py") if path.name != "__init__.py"]

    assert len(modules) <= TOP_MODULES_MAX, modules


@pytest.mark.parametrize("folder", PACKAGES, ids=_name)
def test_a_package_has_few_modules_and_says_where_to_begin(folder: Path) -> None:
    modules = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
    documentation = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""

    assert len(modules) <= MODULES_MAX, modules
    assert documentation, "tell what it decides and where to begin"


def test_what_lies_behind_a_face_is_found() -> None:
    source = (
        "from shared.core.scoring.packing_index import PackingIndex\n"
        "from shared.core.scoring import Cluster"
    )

    assert ["shared.core.scoring.packing_index"] == past(
        ["shared.core.scoring"], "services.x", source
    )
    assert [] == past(["shared.core.scoring"], "shared.core.scoring.mix", source)
