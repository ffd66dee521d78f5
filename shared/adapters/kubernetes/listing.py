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
        self._ours: set[str] = set()
        """Uids of pods of ours that were told and are not gone."""
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
        ours = [one for one in found if is_ours(one, self._instance)]
        self._ours = {one.metadata.uid for one in ours}
        return [self._pod(one) for one in ours], version

    async def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after the version, in batches; ends only by an error (see the port)."""
        async for events in self._pods.watch(resource_version):
            told = (self._event(kind, found) for kind, found in events)
            yield [one for one in told if one is not None]

    def _event(self, kind: str, found: PodObject) -> WatchEvent | None:
        """One that lost our labels is gone for us, as it would be from the selection."""
        uid = found.metadata.uid
        if is_ours(found, self._instance):
            self._ours.add(uid)
        elif uid not in self._ours:
            return None
        else:
            kind = "DELETED"
        if kind == "DELETED":
            self._ours.discard(uid)
        return WatchEvent(type=kind, pod=self._pod(found, ours=True))

    def _pod(self, found: PodObject, *, ours: bool = False) -> Pod:
        return read_pod(found, self._instance, self._view.uuids, ours=ours)
