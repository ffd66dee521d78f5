"""`ports.Cluster` by a Kubernetes API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.listing import Listing
from shared.adapters.kubernetes.manifest import Making
from shared.adapters.kubernetes.native.adoptable import AdoptablePods
from shared.adapters.kubernetes.operations import Operations
from shared.adapters.kubernetes.pins.pinning import PinWriter
from shared.adapters.kubernetes.pins.view import DeviceView
from shared.adapters.kubernetes.references import absent_of, refused_for
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.cluster import MissingObject, Pod, PodOperation, PodResult, WatchEvent


class KubernetesCluster:
    """See the module; the session is opened by the first call."""

    def __init__(self, settings: KubernetesSettings) -> None:
        making = Making(instance=settings.instance, user_id=settings.user_id)
        self._connection = Connection(settings)
        self._view = DeviceView(self._connection, settings.instance)
        pins = PinWriter(self._connection, self._view, making)
        self._adoptable = AdoptablePods(self._connection, settings.scheduler_name)
        self._operations = Operations(self._connection, making, pins, self._adoptable)
        self._listing = Listing(self._connection, settings.instance, self._view)

    async def apply(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """Try all, side by side; results in the order of the operations. Never raises."""
        absent = await absent_of(self._connection, operations)
        return await asyncio.gather(*(self._carry_out(one, absent) for one in operations))

    async def _carry_out(
        self, operation: PodOperation, absent: frozenset[MissingObject]
    ) -> PodResult:
        """What would be refused for more than what is absent is told so: a namespace say."""
        refused = refused_for(operation, absent)
        if refused is not None:
            return await self._operations.rehearse(operation) or refused
        return await self._operations.carry_out(operation)

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods of this Muster and the version to watch from. Raises Transient."""
        return await self._listing.list_pods()

    def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after `resource_version`, in batches; ends only by an error."""
        return self._listing.watch(resource_version)

    async def close(self) -> None:
        """Close all connections."""
        await self._adoptable.close()
        await self._view.close()
        await self._connection.close()
