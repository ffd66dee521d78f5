"""Values with every field, for people and programs outside that do not know the defaults.

On the wire between services a field at its default is left out (core/model/value.py); an answer of
the API names all of them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

_PLAIN: Final = frozenset((str, int, bool, float, type(None)))
"""Most values of an answer: not one call for each of them."""


def written_out(value: Any) -> Any:  # noqa: ANN401  # any tree of structs
    """`value` in dictionaries and lists, defaults included; other things as they are."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: one if type(one) in _PLAIN else written_out(one) for name, one in fields}
    if isinstance(value, dict):
        return {key: written_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [one if type(one) in _PLAIN else written_out(one) for one in value]
    return value
