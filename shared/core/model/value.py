"""The base of the nouns: frozen, equal by value, and small when written down.

A struct of msgspec is a dataclass made in C: no I/O, no clock, nothing that the core forbids. One
is made in a fifth of the time, read from JSON in a quarter, and a field at its default is left
out of the text (docs/adr/0019). This module is the only one of the core that knows the library.
"""

from __future__ import annotations

import msgspec
from msgspec import field
from msgspec.structs import replace

__all__ = ["Value", "field", "replace"]


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A noun; fields hold immutable things only, so that none can be part of a cycle."""
