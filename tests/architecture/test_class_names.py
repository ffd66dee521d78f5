"""A class name means one thing, and private words that the glossary replaced do not come back."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GONE = frozenset(
    (
        "Agenda",
        "Around",
        "Call",
        "Debts",
        "Desk",
        "Door",
        "Hub",
        "Kind",
        "KindKey",
        "Leavers",
        "Line",
        "Lines",
        "Market",
        "MarketIndex",
        "Resting",
        "Settling",
        "Shelf",
        "Trials",
        "Turns",
        "Vacancy",
    )
)
"""docs/glossary.md has the field's words for them."""
OWN_KIND = ROOT / "shared" / "ports" / "cluster_nodes.py"
"""What happened to an object of Kubernetes; no kind of node."""


def classes(source: str) -> Iterator[str]:
    """Names of all classes in it, nested ones too."""
    return (node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))


def found() -> dict[str, list[Path]]:
    """By name: the modules of shared and services that define it."""
    by_name: dict[str, list[Path]] = defaultdict(list)
    for folder in ("shared", "services"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in classes(path.read_text()):
                by_name[name].append(path)
    return by_name


def test_a_class_name_is_there_once() -> None:
    twice = {
        name: [str(path.relative_to(ROOT)) for path in paths]
        for name, paths in found().items()
        if len(paths) > 1
    }

    assert {} == twice


def test_words_that_are_gone_do_not_come_back() -> None:
    back = {name: paths for name, paths in found().items() if name in GONE and paths != [OWN_KIND]}

    assert {} == back


def test_nested_classes_are_seen() -> None:
    assert ["A", "B"] == sorted(classes("class A:\n    class B:\n        pass"))
