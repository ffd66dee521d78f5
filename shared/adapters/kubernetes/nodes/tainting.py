"""`ports.NodeTaints` by a Kubernetes API server: read, and written if it is as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes.collection import NOT_FOUND, OK
from shared.adapters.kubernetes.connection import MERGE_PATCH, Answer, Connection
from shared.adapters.kubernetes.nodes.source import NODES
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.kubernetes.health_taints import TaintFields, changed
from shared.ports.errors import Transient

CONFLICT: Final = 409
FORBIDDEN: Final = 403
TRIES_MAX: Final = 5
"""Of a node that others change at the same time."""
_decode: Final = msgspec.json.decode


class KubernetesTaints:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings) -> None:
        """`settings`: the API server, and the account."""
        self._connection = Connection(settings, requests_at_once=1)

    async def put(self, node: str, taints: Sequence[TaintFields]) -> bool:
        """Give a node these taints of Muster; whether anything was written.

        Raises:
            Transient: the server refuses, or does not answer; with the next step.
        """
        path = f"{NODES}/{node}"
        for _ in range(TRIES_MAX):
            answer = await self._connection.request("GET", path)
            if answer.status == NOT_FOUND:
                return False
            body = _object(_require(answer, node))
            present: list[TaintFields] = body["spec"].get("taints") or []
            after = changed(present, taints)
            if after is None:
                return False
            version = body["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": after}}
            answer = await self._connection.request("PATCH", path, patch, content_type=MERGE_PATCH)
            if answer.status not in {CONFLICT, NOT_FOUND}:
                _require(answer, node)
                return True
        raise Transient(f"node {node} was changed by others {TRIES_MAX} times in a row")

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def _require(answer: Answer, node: str) -> bytes:
    if answer.status == OK:
        return answer.body
    advice = ""
    if answer.status == FORBIDDEN:
        advice = "; allow the cluster watcher get and patch of nodes, or set MUSTER_TAINT_NODES=0"
    text = answer.body[:200].decode(errors="replace")
    raise Transient(f"taints of node {node}: HTTP {answer.status}: {text}{advice}")


def _object(body: bytes) -> Any:  # noqa: ANN401  # an object of the API
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise Transient(f"a node that cannot be read: {error}") from error
