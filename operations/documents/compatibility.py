"""Schemas grow, never change: what a new schema must not do to messages that exist.

Inside one version only optional properties may be added. Everything else that a
message of the old schema, or a consumer of the old schema, would notice is a broken promise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def broken_promises(before: str, after: str) -> list[str]:
    """One sentence for each promise of schema `before` that schema `after` breaks."""
    old, new = json.loads(before), json.loads(after)
    definitions = _compare_definitions(old.get("$defs", {}), new.get("$defs", {}))
    return sorted([*_compare("", old, new), *definitions])


def _compare_definitions(old: Schema, new: Schema) -> Iterator[str]:
    for name in old.keys() & new.keys():
        yield from _compare(name, old[name], new[name])


def _compare(place: str, old: Schema, new: Schema) -> Iterator[str]:
    """Differences of two schemas at one place; properties and items are followed."""
    before, after = old.get("properties", {}), new.get("properties", {})
    for name in sorted(before.keys() - after.keys()):
        yield f"{_at(place, name)} was removed"
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{_at(place, name)} became required"
    for name in sorted(set(old.get("required", ())) - set(new.get("required", ()))):
        yield f"{_at(place, name)} is required no longer: old consumers still need it"
    for name in sorted(before.keys() & after.keys()):
        yield from _compare(_at(place, name), before[name], after[name])
    if "properties" not in old:
        yield from _compare_leaf(place, old, new)


def _compare_leaf(place: str, old: Schema, new: Schema) -> Iterator[str]:
    for word in ("type", "$ref", "anyOf", "items", "prefixItems", "additionalProperties"):
        if old.get(word) != new.get(word):
            yield f"{place}: {word} was {old.get(word)!r}, is {new.get(word)!r}"
    gone = set(old.get("enum", ())) - set(new.get("enum", ()))
    for value in sorted(map(str, gone)):
        yield f"{place}: the value {value!r} was removed"
    if "default" in old and old["default"] != new.get("default"):
        yield f"{place}: default was {old['default']!r}, is {new.get('default')!r}"


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
