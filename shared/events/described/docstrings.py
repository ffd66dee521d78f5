"""Reads the docstrings that follow fields and enum members: Python itself throws them away."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Mapping

Docstrings = Mapping[str, str]


def of_fields(one: type) -> dict[str, str]:
    """Text by field or member of a class and its bases, the nearest first; on one line."""
    texts: dict[str, str] = {}
    for base in reversed(one.__mro__):
        texts |= _of_module(base.__module__).get(base.__qualname__, {})
    return texts


@functools.cache
def _of_module(name: str) -> Mapping[str, Docstrings]:
    """By class and field; nothing where the module has no source, as built-in ones have none."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[name]))
    except (OSError, TypeError):
        return {}
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> Docstrings:
    texts: dict[str, str] = {}
    field = ""
    for statement in node.body:
        name = _assigned(statement)
        if name:
            field = name
            continue
        text = _text(statement)
        if field and text:
            texts[field] = " ".join(text.split())
        field = ""
    return texts


def _assigned(statement: ast.stmt) -> str:
    """The name of a field or an enum member; empty for another statement."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return ""


def _text(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else ""
    return ""
