"""The caller, identified by its key, or by a token of the cluster."""

from __future__ import annotations

import ipaddress
from typing import Final

from aiohttp import web

from services.gateway.app.context import GatewayContext
from services.gateway.app.kubernetes_callers import is_token
from services.gateway.http.authorisation import Action, Role, Subject
from services.gateway.http.problems import Problem, unavailable
from shared.ports.errors import MusterError

TEAM_HEADER: Final = "Muster-Team"
"""Says which team is meant, of a user of the cluster that is of several."""
_REFUSED_KEY: Final = "the key is unknown, expired or revoked"
_REFUSED_LOGIN: Final = (
    "tokens of Kubernetes are not taken here, or the cluster refuses this one: it is expired,"
    " revoked, or made for another audience"
)
_LOCAL: Final = Subject(name="loopback", team="", role=Role.OPERATOR)


async def authenticated(
    gateway: GatewayContext, request: web.Request, action: Action | None
) -> tuple[Subject, str]:
    """The caller and its key.

    Raises:
        Problem: 401 without a valid key or token; 403 and 429 as KubernetesCallers says; 503
            when they cannot be checked now.
    """
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if not text:
        if action is Action.READ_METRICS and _is_loopback(request.remote):
            return _LOCAL, ""
        raise _unknown_caller("send Authorization: Bearer <key>")
    if scheme.lower() != "bearer":
        raise _unknown_caller("the scheme must be Bearer")
    try:
        subject = await caller_of(gateway, request, text.strip())
    except MusterError as error:
        raise unavailable("keys and tokens cannot be checked now") from error
    if subject is None:
        raise _unknown_caller(_REFUSED_LOGIN if is_token(text) else _REFUSED_KEY)
    return subject, text.strip()


async def caller_of(gateway: GatewayContext, request: web.Request, text: str) -> Subject | None:
    """The caller with this key or token; None where it is not good.

    Raises:
        Problem: 403 and 429, of tokens of the cluster.
        Transient: what says so cannot be asked.
    """
    if gateway.kubernetes is not None and is_token(text):
        team = request.headers.get(TEAM_HEADER, "")
        return await gateway.kubernetes.authenticate(text, request.remote or "", team)
    return await gateway.keys.authenticate(text)


def _unknown_caller(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})


def _is_loopback(remote: str | None) -> bool:
    try:
        return ipaddress.ip_address(remote or "").is_loopback
    except ValueError:
        return False
