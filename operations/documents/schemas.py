"""One JSON Schema for each message type, from the same structs that decode the messages."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from shared.events.described import described_components
from shared.events.registry import TYPE_BY_NAME

CLOSED: Final = frozenset(("PlacementRefused", "QuotaRefused"))
"""Types with a `reason` that was a code from the first. That of others was free text in older
messages, which the log still holds: in their schemas it stays a string, whatever this version
tells."""
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def render() -> dict[str, str]:
    """Text of the schema by type name."""
    return {name: _render(name, payload) for name, payload in sorted(TYPE_BY_NAME.items())}


def _render(name: str, payload: type[msgspec.Struct]) -> str:
    (reference,), components = described_components([payload], "#/$defs/{name}")
    own = components.pop(reference["$ref"].rpartition("/")[2])
    if payload.__name__ not in CLOSED and "Reason" in components:
        del components["Reason"]
        del own["properties"]["reason"]["$ref"]
        own["properties"]["reason"] = {"type": "string", **own["properties"]["reason"]}
    schema: dict[str, Any] = {"$schema": DIALECT, "$id": name, **own}
    if components:
        schema["$defs"] = components
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
