"""A JSON body by the strict reader of both doors; what it refuses is a problem document."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from services.gateway.problems import invalid
from shared.events.strict_reader import BODY_BYTES_MAX, BadInput, read_strictly

__all__ = ["BATCH_BYTES_MAX", "BODY_BYTES_MAX", "decode"]

BATCH_BYTES_MAX: Final = 4 << 20
Decoded = TypeVar("Decoded")


def decode(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """The value of `body`.

    Raises:
        Problem: 400 with every unknown field, or with the first other broken rule.
    """
    try:
        return read_strictly(body, decoder)
    except BadInput as bad:
        raise invalid(bad.errors, str(bad)) from bad
