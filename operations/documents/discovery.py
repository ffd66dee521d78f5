"""Finds modules by their name: what is called `settings` or `metrics` is documented."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import services
import shared


def modules(*names: str) -> list[ModuleType]:
    """Modules of services and shared with a last name in `names`, in order of path."""
    found = [
        one.name
        for package in (services, shared)
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if one.name.rpartition(".")[2] in names
    ]
    return [importlib.import_module(name) for name in sorted(found)]
