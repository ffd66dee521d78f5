"""Full lists and watches of the pods of one Muster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.collection import ObjectCollection
from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.objects import PodList, PodObject, decoder
from shared.adapters.kubernetes.pins.view import DeviceView
from shared.adapters.kubernetes.reading import is_ours, read_pod
from shared.ports.cluster import Pod, WatchEvent

PODS: Final = "/api/v1/pods"


class Listing:
    """Reads pods; holds nothing but the connection."""

    def __init__(self, connection: Connection, instance: str, view: DeviceView) -> None:
        """`view`: what claims hold."""
        self._instance = instance
        self._view = view
        self._pods = ObjectCollection[PodObject](
            connection,
            PODS,
            what="pods",
            query={"labelSelector": naming.selector(instance)},
            pages=decoder(PodList),
            items=decoder(PodObject),
        )

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods of this Muster and the version to watch from; raises Transient."""
        found, version = await self._pods.read()
        if any(one.spec.resource_claims for one in found):
            await self._view.ready()
        return [self._pod(one) for one in found if is_ours(one, self._instance)], version

    async def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after the version, in batches; ends only by an error (see the port)."""
        async for events in self._pods.watch(resource_version):
            yield [
                WatchEvent(type=kind, pod=self._pod(found))
                for kind, found in events
                if is_ours(found, self._instance)
            ]

    def _pod(self, found: PodObject) -> Pod:
        return read_pod(found, self._instance, self._view.uuids)
