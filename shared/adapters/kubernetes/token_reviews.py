"""`ports.TokenReviews` by the TokenReview of the API server (authentication.k8s.io/v1).

Without an audience of ours a token must be good for the API server itself, as those of kubeconfig
files are. With one the answer has to name it: an authenticator that knows no audiences is passed
over, as the API asks of its callers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.finding import told
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.token_reviews import TokenOwner

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
CREATED: Final = 201


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()
    audiences: tuple[str, ...] = ()


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class KubernetesTokenReviews:
    """See the module; the session is opened by the first call."""

    def __init__(self, settings: KubernetesSettings, audience: str = "") -> None:
        self._audience = audience
        self._connection = Connection(settings)
        self._decoder = msgspec.json.Decoder(_Review)

    async def review(self, token: str) -> TokenOwner | None:
        """See the port."""
        spec: dict[str, object] = {"token": token}
        if self._audience:
            spec["audiences"] = [self._audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        answer = await self._connection.request("POST", PATH, body)
        if answer.status != CREATED:
            raise Transient(f"token reviews: {answer.status} {told(answer.body)}")
        status = self._decoder.decode(answer.body).status
        foreign = self._audience and self._audience not in status.audiences
        if not status.authenticated or foreign or not status.user.username:
            return None
        return TokenOwner(user=status.user.username, groups=status.user.groups)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()
