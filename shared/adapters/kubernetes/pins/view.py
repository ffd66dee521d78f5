"""What is known of the devices of a cluster: drivers of each node, its devices, their holders.

Nodes, ResourceSlices, ResourceClaims and DeviceClasses are followed from the first question on. A
claim that was just written is known at once; what is older than what is known is passed over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.nodes.following import A_PAGE, Follower, collection
from shared.adapters.kubernetes.nodes.objects import (
    ClaimList,
    ClaimObject,
    ClassList,
    ClassObject,
    NodeList,
    NodeObject,
    SliceList,
    SliceObject,
)
from shared.adapters.kubernetes.nodes.source import CLAIMS, NODES, SLICES, SLICES_A_PAGE
from shared.adapters.kubernetes.pins.claims import read_claim
from shared.adapters.kubernetes.pins.devices import (
    DeviceId,
    DeviceName,
    mask_of,
    newest,
    read_names,
)
from shared.adapters.kubernetes.pins.known import Claims, KnownObjects, Slices
from shared.core.kubernetes.quantity import ONE, at_most
from shared.core.kubernetes.requests import GPU
from shared.ports.cluster_nodes import Kind
from shared.ports.errors import Transient

CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
READY_SECONDS_MAX: Final = 10.0
POLL_SECONDS: Final = 0.02
Config = tuple[Mapping[str, Any], ...]


class ClaimHolder(NamedTuple):
    """A claim, by namespace and name, and whether it goes with a pod of ours."""

    key: str
    passes: bool


class DeviceView:
    """See the module; `close` ends the following, the next question begins it anew."""

    def __init__(self, connection: Connection, instance: str) -> None:
        self._connection = connection
        self._instance = instance
        self._task: asyncio.Task[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._counted = KnownObjects[bool]()
        self._slices = Slices()
        self.claims = Claims()
        self._classes = KnownObjects[Config]()

    @property
    def _all(self) -> tuple[KnownObjects[Any], ...]:
        return self._counted, self._slices.known, self.claims.known, self._classes

    async def ready(self) -> None:
        """Return once everything was listed.

        Raises:
            Transient: it was not in time; with the reason if there is one.
        """
        if self._task is None:
            self._begin()
            self._task = asyncio.create_task(self._follow(), name="device-view")
        elif self._task.done():
            task, self._task = self._task, None
            raise Transient(f"nothing was heard of devices: {task.exception()!r}")
        deadline = asyncio.get_running_loop().time() + READY_SECONDS_MAX
        while not all(known.complete for known in self._all):
            problem = next((known.problem for known in self._all if known.problem), "")
            if problem or asyncio.get_running_loop().time() > deadline:
                raise Transient(problem or "devices are not listed yet")
            await asyncio.sleep(POLL_SECONDS)

    def claimed(self, node: str) -> bool:
        """Whether its GPUs are had by claims: it has slices, and no device plugin counts them."""
        return bool(self._slices.of_node.get(node)) and not self.counted(node)

    def counted(self, node: str) -> bool:
        """Whether a device plugin counts its GPUs."""
        return self._counted.items.get(node, False)

    def devices(self, node: str) -> dict[DeviceId, DeviceName]:
        """The devices of NVIDIA's driver on a node."""
        return newest(self._slices.of_node.get(node, {}).values())

    def config(self, device_class: str) -> Config | None:
        """Of a device class; None where there is no such class."""
        return self._classes.items.get(device_class)

    def holder(self, device: DeviceId, node: str, own: str) -> ClaimHolder | None:
        """A claim other than `own` that has the device or a part of it; others' first."""
        devices = self.devices(node)
        mask = _mask(device, devices)
        found = [
            ClaimHolder(key, claim.ours and not claim.used_by_others)
            for key, claim in self.claims.holders(device)
            if key != own
            and any(
                one.pool == device.pool and _mask(one, devices) & mask for one in claim.devices
            )
        ]
        return min(found, key=lambda one: one.passes, default=None)

    def uuids(self, key: str, pod_uid: str) -> tuple[str, ...]:
        """Of the devices that a claim holds for a pod; by name where a device has none (yet)."""
        claim = self.claims.known.items.get(key)
        if claim is None or pod_uid not in claim.reserved:
            return ()
        return tuple(self._uuid(one) for one in claim.devices)

    def _uuid(self, device: DeviceId) -> str:
        named = self.devices(device.pool).get(device)
        return (named.uuid if named is not None else "") or f"{device.pool}/{device.name}"

    async def close(self) -> None:
        """Follow no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        instance = self._instance
        nodes = self._objects(Kind.NODES, NODES, NodeList, NodeObject)
        slices = self._objects(Kind.SLICES, SLICES, SliceList, SliceObject, page=SLICES_A_PAGE)
        claims = self._objects(Kind.CLAIMS, CLAIMS, ClaimList, ClaimObject)
        classes = self._objects("deviceclasses", CLASSES, ClassList, ClassObject)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Follower("nodes", nodes, _counts).run(self._counted))
            tasks.create_task(Follower("slices", slices, read_names).run(self._slices.known))
            tasks.create_task(
                Follower("claims", claims, lambda found: read_claim(found, instance)).run(
                    self.claims.known
                )
            )
            tasks.create_task(Follower("classes", classes, _config).run(self._classes))

    def _objects(
        self,
        what: str,
        path: str,
        pages: Any,  # noqa: ANN401  # the type of a list
        items: type[Any],
        *,
        page: int = A_PAGE,
    ) -> Any:  # noqa: ANN401  # of any kind
        return collection(self._connection, path, what=what, pages=pages, items=items, page=page)


def _counts(found: NodeObject) -> bool:
    """Whether a device plugin counts its GPUs; raises ValueError for an amount that is none."""
    return at_most((found.status.capacity or {}).get(GPU, "0"), ONE) > 0


def _config(found: ClassObject) -> Config:
    return tuple(found.spec.config)


def _mask(device: DeviceId, devices: Mapping[DeviceId, DeviceName]) -> int:
    named = devices.get(device)
    return named.mask if named is not None else mask_of(device.name)
