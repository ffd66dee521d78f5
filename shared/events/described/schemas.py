"""JSON Schemas of structs in which every property says what it is."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from shared.events.described.bounds import BOUNDS, bound
from shared.events.described.docstrings import of_fields
from shared.events.described.vocabulary import VOCABULARY
from shared.events.strict import source_of

Schema = dict[str, Any]


def described_components(
    roots: Iterable[Any],
    ref_template: str,
    schema_hook: Callable[[type], Schema] | None = None,
) -> tuple[tuple[Schema, ...], dict[str, Schema]]:
    """As `msgspec.json.schema_components`, with a description of each property.

    A field that neither a docstring nor the vocabulary describes stays bare.

    Raises:
        ValueError: two structs have one name, so that their fields cannot be told apart.
    """
    roots = list(roots)
    structs = _structs(roots)
    schemas, components = msgspec.json.schema_components(
        roots, ref_template=ref_template, schema_hook=schema_hook
    )
    for name, struct in structs.items():
        component = components[name]
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
        properties = component.get("properties", {})
        _describe(properties, _texts(struct))
        if source_of(struct) is not struct:
            _bound(properties, BOUNDS.get(source_of(struct).__name__, {}))
    return schemas, components


def _bound(properties: dict[str, Schema], bounds: Mapping[str, Schema]) -> None:
    """What comes in says more of its values than their types do."""
    for name, words in bounds.items():
        if name in properties:
            bound(properties[name], words)


def _texts(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    return VOCABULARY | of_fields(source_of(struct)) | of_fields(struct)


def _describe(properties: dict[str, Schema], texts: Mapping[str, str]) -> None:
    for name, schema in properties.items():
        text = texts.get(name)
        if text and "description" not in schema:
            schema["description"] = text


def _structs(roots: Iterable[Any]) -> dict[str, type[msgspec.Struct]]:
    """Every struct below `roots` by its name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if not (isinstance(one, type) and issubclass(one, msgspec.Struct)):
            waiting += typing.get_args(one)
        elif one.__name__ not in found:
            found[one.__name__] = one
            waiting += typing.get_type_hints(one, include_extras=True).values()
        elif found[one.__name__] is not one:
            raise ValueError(f"two structs are called {one.__name__}")
    return found
