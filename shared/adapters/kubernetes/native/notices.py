"""`ports.PodNotices` by a Kubernetes API server: an event, and the condition PodScheduled."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.connection import ADDING_PATCH, JSON, Connection
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.native import PodNotice

NOTE_MAX: Final = 1_024
"""Characters of an event's note, by the API."""
NAME_MAX: Final = 230
UNSCHEDULABLE: Final = "Unschedulable"
_DONE: Final = frozenset((200, 201, 404, 409))
"""Also where it was written before, or the pod or its namespace is gone."""


class KubernetesPodNotices:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._connection = Connection(
            config=settings.config, context=settings.context, requests_at_once=4
        )
        self._instance = f"{settings.scheduler_name}-{settings.instance}"
        self._clock = SystemClock()

    async def write(self, notice: PodNotice) -> None:
        """An event named after what it says, then the condition. Raises Transient."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        now = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        path = f"/apis/events.k8s.io/v1/namespaces/{notice.namespace}/events"
        await self._send("POST", path, _event(notice, self._instance, now))
        pod = f"/api/v1/namespaces/{notice.namespace}/pods/{notice.name}/status"
        await self._send("PATCH", pod, _condition(notice), content_type=ADDING_PATCH)

    async def _send(
        self, method: str, path: str, body: dict[str, Any], content_type: str = JSON
    ) -> None:
        answer = await self._connection.request(method, path, body, content_type=content_type)
        if answer.status not in _DONE:
            words = answer.body[:200].decode(errors="replace")
            raise Transient(f"{method} {path}: HTTP {answer.status}: {words}")

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def _event(notice: PodNotice, instance: str, now: str) -> dict[str, Any]:
    what = f"{notice.uid}\x00{notice.reason}\x00{notice.message}"
    digest = sha256(what.encode()).hexdigest()[:16]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{notice.name[:NAME_MAX].rstrip('-.')}.{digest}",
            "namespace": notice.namespace,
        },
        "eventTime": now,
        "reportingController": "muster.dev/native",
        "reportingInstance": instance,
        "action": "Scheduling",
        "reason": notice.reason,
        "type": "Warning",
        "note": notice.message[:NOTE_MAX],
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": notice.namespace,
            "name": notice.name,
            "uid": notice.uid,
        },
    }


def _condition(notice: PodNotice) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": UNSCHEDULABLE if notice.capacity else notice.reason,
        "message": notice.message,
    }
    return {"metadata": {"uid": notice.uid}, "status": {"conditions": [condition]}}
