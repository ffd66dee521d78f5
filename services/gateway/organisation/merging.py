"""JSON Merge Patch (RFC 7396) of a document: what a patch does not name stays as it is.

A field that is patched with null gets its default again. An array is replaced as a whole.
"""

from __future__ import annotations

from typing import Any

import msgspec

from services.gateway.documents.documents import DocumentCollection, applied_of
from services.gateway.http import bodies
from shared.events.written_out import written_out

Json = dict[str, Any]


def merged(target: Any, patch: Any) -> Any:  # noqa: ANN401  # any JSON
    """`target` with `patch` merged into it, by RFC 7396; neither of them changes."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def patched(collection: DocumentCollection, name: str, before: Any, patch: Json) -> Any:  # noqa: ANN401  # one of Applied
    """The payload of version 0 that `patch` makes of `before`; of None, of the defaults.

    Raises:
        Problem: 400 where the result is no such document.
    """
    body = msgspec.json.encode(merged(fields_of(before), patch))
    request = bodies.decode(body, msgspec.json.Decoder(collection.patch))
    return applied_of(collection, name, request)


def fields_of(document: Any) -> Json:  # noqa: ANN401  # one of Applied, or None
    """What can be applied of a document, with its defaults: everything but name and version."""
    if document is None:
        return {}
    fields = written_out(document)
    return {name: value for name, value in fields.items() if name not in {"name", "version"}}
