"""Shares of a GPU: one claim for each GPU and namespace, which all pods that share it use.

Every such pod owns the claim, so it goes with the last of them; the devices are let go when no pod
uses them any more, and the next pod allocates them again. How much of the GPU each pod takes is
the ledger's business: the driver lets them take turns.
"""

from __future__ import annotations

from typing import Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.connection import ADDING_PATCH
from shared.adapters.kubernetes.manifest import Making
from shared.adapters.kubernetes.pins.claims import (
    Claim,
    allocation_patch,
    claim_manifest,
    owner_patch,
    reservation_patch,
    shared_name,
)
from shared.adapters.kubernetes.pins.devices import WHOLE_CLASS, DeviceId
from shared.adapters.kubernetes.pins.store import ClaimStore, key_of, later, never
from shared.adapters.kubernetes.pins.view import DeviceView
from shared.ports.cluster import Pod

TRIES_MAX: Final = 5
"""Pods that begin to share a GPU at the same time change one claim."""


class Sharing:
    """See the module."""

    def __init__(self, store: ClaimStore, view: DeviceView, making: Making) -> None:
        self._store = store
        self._view = view
        self._making = making

    async def give(self, pod: Pod, uid: str) -> None:
        """Let the pod use the GPU of its share; raises as `Pins.pin`."""
        device = DeviceId(pod.node, f"gpu-{pod.shares[0].index}")
        if device not in self._view.devices(pod.node):
            raise later(f"no slice of {pod.node} has GPU {pod.shares[0].index}")
        name = shared_name(pod)
        await self._store.require_free(device, pod.node, key_of(pod.namespace, name))
        for _ in range(TRIES_MAX):
            claim = await self._claim(pod, uid, name)
            if claim is not None and await self._is_reserved(claim, pod, uid, device):
                return
        raise later("others change its claim at the same time")

    async def _claim(self, pod: Pod, uid: str, name: str) -> Claim | None:
        """The claim, which this pod owns too; None where it changed meanwhile."""
        found = await self._store.read(pod.namespace, name)
        if found is None:
            return await self._create(pod, uid, name)
        if not found.ours:
            raise never("NameTaken", f"the claim {name} belongs to somebody else")
        if found.deleting:
            raise later(f"the claim {name} of former pods is not gone yet")
        if uid in found.pod_uids and found.protected:
            return found
        body = owner_patch(pod, uid)
        return await self._store.patch(pod.namespace, name, body, how=ADDING_PATCH)

    async def _create(self, pod: Pod, uid: str, name: str) -> Claim | None:
        labels = {
            naming.MANAGED_BY: naming.MUSTER,
            naming.INSTANCE: self._making.instance,
            naming.SHARED: str(pod.shares[0].index),
        }
        body = claim_manifest(
            pod, uid, name=name, device_class=WHOLE_CLASS, count=1, labels=labels
        )
        return await self._store.create(body)

    async def _is_reserved(self, claim: Claim, pod: Pod, uid: str, device: DeviceId) -> bool:
        """Whether the pod may use it now; False where it changed meanwhile."""
        if claim.allocated and claim.devices != (device,):
            raise never("OtherDevices", f"the claim of {device.name} has another device")
        if claim.allocated and uid in claim.reserved:
            return True
        if claim.allocated:
            body = reservation_patch(claim, pod, uid)
        else:
            config = self._view.config(WHOLE_CLASS)
            if config is None:
                raise later(f"there is no device class {WHOLE_CLASS}")
            body = allocation_patch(claim, pod, uid, devices=[device], config=config)
        name = shared_name(pod)
        done = await self._store.patch(pod.namespace, name, body, of="/status", how=ADDING_PATCH)
        return done is not None
