"""The caller, identified by its key."""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import web

from services.gateway.app.context import GatewayContext
from services.gateway.http.authorisation import Action, Role, Subject
from services.gateway.http.problems import Problem, unavailable
from shared.ports.errors import MusterError

_LOCAL: Final = Subject(name="loopback", team="", role=Role.OPERATOR)


async def authenticated(
    gateway: GatewayContext, request: web.Request, action: Action | None
) -> tuple[Subject, str]:
    """The caller and its key.

    Raises:
        Problem: 401 without a valid key; 503 when keys cannot be checked now.
    """
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if not text:
        if action is Action.READ_METRICS and _is_loopback(request.remote):
            return _LOCAL, ""
        raise _unknown_caller("send Authorization: Bearer <key>")
    if scheme.lower() != "bearer":
        raise _unknown_caller("the scheme must be Bearer")
    try:
        subject = await gateway.keys.authenticate(text.strip())
    except MusterError as error:
        raise unavailable("keys cannot be checked now") from error
    if subject is None:
        raise _unknown_caller("the key is unknown, expired or revoked")
    return subject, text.strip()


def _unknown_caller(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})


def _is_loopback(remote: str | None) -> bool:
    try:
        return ipaddress.ip_address(remote or "").is_loopback
    except ValueError:
        return False
