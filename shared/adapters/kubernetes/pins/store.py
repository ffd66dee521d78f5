"""Claims on the API server: each is read, written and noted; and why a pod has no devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.adapters.kubernetes.connection import Answer, Connection, NoAnswer
from shared.adapters.kubernetes.nodes.objects import ClaimObject
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.pins.claims import Claim, read_claim
from shared.adapters.kubernetes.pins.devices import DeviceId
from shared.adapters.kubernetes.pins.view import DeviceView
from shared.ports.cluster import INVALID, PodResult

OK: Final = 200
CREATED: Final = 201
NOT_FOUND: Final = 404
CONFLICT: Final = 409
LATER: Final = 503


class NotPinned(Exception):  # noqa: N818  # it is often no error
    """Why a pod has no devices (yet)."""

    def __init__(self, result: PodResult) -> None:
        super().__init__(result.message)
        self.result = result


class ApiRefusal(Exception):  # noqa: N818  # an answer
    """The API server said no."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def later(message: str) -> NotPinned:
    """What passes."""
    return NotPinned(PodResult(status=LATER, reason="DevicesNotReady", message=message))


def never(reason: str, message: str) -> NotPinned:
    """What does not."""
    return NotPinned(PodResult(status=INVALID, reason=reason, message=message))


class ClaimStore:
    """See the module. All methods raise Transient when an answer was lost."""

    def __init__(self, connection: Connection, view: DeviceView, instance: str) -> None:
        self._connection = connection
        self._view = view
        self._instance = instance
        self._objects = decoder(ClaimObject)

    async def require_free(self, device: DeviceId, node: str, own: str) -> None:
        """Raise NotPinned where a claim other than `own` has the device or a part of it.

        The API server is asked before it is believed: news may be late.
        """
        while (holder := self._view.holder(device, node, own)) is not None:
            before = self._view.claims.known.items.get(holder.key)
            namespace, _, name = holder.key.partition("/")
            if await self.read(namespace, name) == before:
                has = f"{device.name} is in the claim {holder.key}"
                if holder.passes:
                    raise later(f"{has} until the cluster has let it go")
                raise never("DeviceTaken", f"{has}, which is not of Muster's pods")

    async def read(self, namespace: str, name: str) -> Claim | None:
        """The claim as it is now; None where there is none."""
        answer = await self._connection.request("GET", _path(namespace, name))
        if answer.status == NOT_FOUND:
            self._view.claims.known.forget(key_of(namespace, name))
            return None
        if answer.status != OK:
            raise NoAnswer(f"GET of claim {name}: HTTP {answer.status}")
        return self._seen(namespace, name, answer)

    async def create(self, body: Mapping[str, Any]) -> Claim | None:
        """The new claim; None where there is one of this name. Raises Refused."""
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        answer = await self._connection.request("POST", _path(namespace), body)
        if answer.status == CONFLICT:
            return None
        if answer.status != CREATED:
            raise ApiRefusal(answer)
        return self._seen(namespace, name, answer)

    async def patch(
        self, namespace: str, name: str, body: Mapping[str, Any], *, of: str = "", how: str
    ) -> Claim | None:
        """The changed claim; None where it is of another version. Raises Refused.

        `of`: the subresource that is changed; `how`: the kind of patch.
        """
        path = _path(namespace, name) + of
        answer = await self._connection.request("PATCH", path, body, content_type=how)
        if answer.status in (CONFLICT, NOT_FOUND):
            return None
        if answer.status != OK:
            raise ApiRefusal(answer)
        return self._seen(namespace, name, answer)

    async def delete(self, namespace: str, name: str, claim: Claim) -> None:
        """Its pod is gone, so it goes too: at once, or when its devices were let go."""
        preconditions = {"uid": claim.uid}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        await self._connection.request("DELETE", _path(namespace, name), body)

    def _seen(self, namespace: str, name: str, answer: Answer) -> Claim:
        claim = read_claim(self._objects.decode(answer.body), self._instance)
        self._view.claims.known.changed(key_of(namespace, name), claim, claim.version)
        return claim


def key_of(namespace: str, name: str) -> str:
    """By what a claim is known."""
    return f"{namespace}/{name}"


def _path(namespace: str, name: str = "") -> str:
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    return f"{path}/{name}" if name else path
