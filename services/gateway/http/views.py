"""Bases of what comes in and goes out; OpenAPI is made from the structs built on them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shared.events.strict import NAME_LENGTH_MAX, PRINTABLE, TEXT_LENGTH_MAX

Name = Annotated[str, Meta(max_length=NAME_LENGTH_MAX, pattern=PRINTABLE)]
Text = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX, pattern=PRINTABLE)]


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what comes in."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what goes out; every field is always there."""
