"""`ports.PodNotices` by a Kubernetes API server: an event, and a condition."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.connection import ADDING_PATCH, JSON, Connection
from shared.adapters.kubernetes.native.told_objects import ToldObject, told_object
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.native import GroupNotice, NativeNotice

NOTE_MAX: Final = 1_024
"""Characters of an event's note, by the API."""
NAME_MAX: Final = 230
_DONE: Final = frozenset((200, 201, 404, 409))
"""Also where it was written before, or the object or its namespace is gone."""


class KubernetesPodNotices:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._connection = Connection(settings, requests_at_once=4)
        self._instance = f"{settings.scheduler_name}-{settings.instance}"
        self._clock = SystemClock()

    async def write(self, notice: NativeNotice) -> None:
        """An event named after what it says, then the condition. Raises Transient."""
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        told = told_object(notice, at)
        path = f"/apis/events.k8s.io/v1/namespaces/{notice.namespace}/events"
        await self._send("POST", path, _event(notice, told, self._instance, at))
        if told.condition is not None:
            body = {
                "metadata": {"uid": notice.uid},
                "status": {"conditions": [told.condition]},
            }
            await self._send("PATCH", f"{told.path}/status", body, content_type=ADDING_PATCH)

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


def _event(notice: NativeNotice, told: ToldObject, instance: str, at: datetime) -> dict[str, Any]:
    what = f"{notice.uid}\x00{notice.reason}\x00{notice.message}"
    digest = sha256(what.encode()).hexdigest()[:16]
    good = isinstance(notice, GroupNotice) and notice.scheduled
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{notice.name[:NAME_MAX].rstrip('-.')}.{digest}",
            "namespace": notice.namespace,
        },
        "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": "muster.dev/native",
        "reportingInstance": instance,
        "action": "Scheduling",
        "reason": notice.reason,
        "type": "Normal" if good else "Warning",
        "note": notice.message[:NOTE_MAX],
        "regarding": {
            "apiVersion": told.api_version,
            "kind": told.kind,
            "namespace": notice.namespace,
            "name": notice.name,
            "uid": notice.uid,
        },
    }
