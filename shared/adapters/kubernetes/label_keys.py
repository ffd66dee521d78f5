"""Label keys as a setting: several, parted by commas."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

POOL_LABELS: Final = ("muster.dev/pool",)
"""Labels by which a node tells its pool, unless a setting says otherwise."""


def _parted(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(filter(None, map(str.strip, value.split(","))))


Keys = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parted)]
"""Label keys, parted by commas; the first that a node has counts."""
