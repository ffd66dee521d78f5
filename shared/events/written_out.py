"""Values with every field, for people and programs outside who do not know the defaults.

On the wire between services a field at its default is left out (core/value.py); an answer of the
API names all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec


def written_out(value: Any) -> Any:  # noqa: ANN401  # any tree of structs
    """`value` in dictionaries and lists, defaults included; other things as they are."""
    if isinstance(value, msgspec.Struct):
        return {name: written_out(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: written_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [written_out(item) for item in value]
    return value
