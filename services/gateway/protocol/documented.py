"""The headers of answers, as OpenAPI tells them."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from services.gateway.http.route import Route

_SECONDS: Final = {"type": "integer", "minimum": 0}
_TEXT: Final = {"type": "string"}
_ETAG: Final = (
    "Entity tag for `If-None-Match`. Strong, the version, of what is told as it was applied; weak "
    "where live numbers stand beside it, the version then being in front, if there is one."
)
_HEADERS: Final[dict[str, dict[str, Any]]] = {
    "ETag": {"description": _ETAG, "schema": _TEXT},
    "Cache-Control": {
        "description": "`no-store` where a secret is shown once.",
        "schema": _TEXT,
    },
    "Location": {"description": "Path of what was made.", "schema": _TEXT},
    "Retry-After": {"description": "Seconds after which to ask again.", "schema": _SECONDS},
    "WWW-Authenticate": {"description": "The scheme of the key: Bearer.", "schema": _TEXT},
}
NOT_MODIFIED: Final = "`If-None-Match` names what the answer would be; nothing is sent again."
_OF_STATUS: Final = {
    304: ("ETag", "Cache-Control"),
    401: ("WWW-Authenticate",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_MAKES: Final = ("submit", "create_key")
_SHOWS_SECRETS: Final = ("put_teams", "create_key", "create_kafka_password")


def headers_of(route: Route, status: int) -> dict[str, Any]:
    """Those that the answer of this status has, by name."""
    names = list(_OF_STATUS.get(status, ()))
    is_read = route.method == "GET" and bool(route.answers)
    if status == web.HTTPOk.status_code and is_read:
        names += ["ETag", "Cache-Control"]
    if status < web.HTTPMultipleChoices.status_code and route.method in ("PUT", "PATCH"):
        names.append("ETag")
    if status == web.HTTPCreated.status_code and route.name in _SHOWS_SECRETS:
        names.append("Cache-Control")
    if status in (201, 202) and (route.name in _MAKES or route.name.startswith("command_")):
        names.append("Location")
    return {name: _HEADERS[name] for name in names}
