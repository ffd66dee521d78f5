"""Gives a pod the devices of its shares: its claim, then the allocation.

Each step is read back where it was done before, by this process or one that died, so that a pin
may be repeated. The API server would accept one device in two claims and devices that do not
exist, so both are looked at here. What passes is waited for (503): a claim of a pod of ours that
has ended, a slice that its driver is writing anew. What does not is refused (422).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from shared.adapters.kubernetes.connection import MERGE_PATCH, Connection
from shared.adapters.kubernetes.manifest import Making, labels_of
from shared.adapters.kubernetes.pins.claims import (
    Claim,
    allocation_patch,
    claim_manifest,
    shared_name,
)
from shared.adapters.kubernetes.pins.counting import Asked, CountingPods, claim_of_pod
from shared.adapters.kubernetes.pins.devices import (
    MIG_CLASS,
    WHOLE_CLASS,
    DeviceId,
    devices_of_share,
    has_devices,
)
from shared.adapters.kubernetes.pins.sharing import Sharing
from shared.adapters.kubernetes.pins.store import ClaimStore, key_of, later, never
from shared.adapters.kubernetes.pins.view import DeviceView
from shared.ports.cluster import Pod, PodOperation, PodResult
from shared.ports.errors import Transient

OK: Final = 200


class PinWriter:
    """See the module."""

    def __init__(self, connection: Connection, view: DeviceView, making: Making) -> None:
        self._view = view
        self._making = making
        self._store = ClaimStore(connection, view, making.instance)
        self._sharing = Sharing(self._store, view, making)
        self._counting = CountingPods(connection)

    async def claim_name(self, pod: Pod) -> str:
        """Of the claim that the manifest of a pod names; empty where it has none.

        Raises:
            NotPinned: it is not known (yet) how the GPUs of its node are had.
        """
        if not pod.node or not pod.shares:
            return ""
        await self._ready()
        whole = _has_devices(pod)
        if self._view.claimed(pod.node):
            return pod.name if whole else shared_name(pod)
        by_plugin = self._view.counted(pod.node) or pod.template.pod_set.gpu.mig_profile
        if whole and not by_plugin:
            raise later(f"{pod.node} shows no GPUs: no count of a device plugin, no slices")
        return ""

    async def needs_claim(self, pod: Pod) -> bool:
        """Whether the GPUs of a pod of others are had by a claim, which is made when it is pinned.

        Raises:
            NotPinned: it is not known (yet) how the GPUs of its node are had.
        """
        if not pod.shares:
            return False
        await self._ready()
        if not self._view.claimed(pod.node) and not self._view.counted(pod.node):
            raise later(f"{pod.node} shows no GPUs: no count of a device plugin, no slices")
        return self._view.claimed(pod.node)

    async def pin(self, operation: PodOperation, pod: Pod) -> PodResult:
        """200 once the claim of the pod holds its devices and is reserved for it.

        Raises:
            NotPinned: it does not, and why.
            Refused: the API server said no.
            Transient: an answer was lost.
        """
        await self._ready()
        if pod.group:
            await self._give_counted(pod, operation)
        elif _has_devices(pod):
            await self._give(pod, operation.uid)
        else:
            await self._sharing.give(pod, operation.uid)
        return PodResult(status=OK)

    async def _ready(self) -> None:
        try:
            await self._view.ready()
        except Transient as error:
            raise later(str(error)) from error

    async def _give_counted(self, pod: Pod, operation: PodOperation) -> None:
        """A claim for the GPUs that a pod of others counts, and its status, which names it."""
        found = await self._counting.read(operation.namespace, operation.name)
        named = replace(pod, name=operation.name, namespace=operation.namespace)
        claim = claim_of_pod(operation.name, operation.uid)
        await self._give(named, operation.uid, Asked(claim=claim, request=found.request))
        await self._counting.tell(operation, claim, found)

    async def _give(self, pod: Pod, uid: str, asked: Asked | None = None) -> None:
        asked = asked or Asked(claim=pod.name)
        devices = self._devices(pod)
        own = key_of(pod.namespace, asked.claim)
        for device in devices:
            await self._store.require_free(device, pod.node, own)
        claim = await self._claim(pod, uid, len(devices), asked)
        if not claim.allocated:
            await self._allocate(claim, pod, uid, devices, asked)
        elif set(claim.devices) != set(devices):
            has = ", ".join(one.name for one in claim.devices)
            raise never("OtherDevices", f"its claim has {has}, and an allocation never changes")

    def _devices(self, pod: Pod) -> list[DeviceId]:
        """Those that its shares stand for, in their order."""
        known, profile = self._view.devices(pod.node), pod.template.pod_set.gpu.mig_profile
        found: list[DeviceId] = []
        for share in pod.shares:
            devices = devices_of_share(share, profile, known.items())
            if not devices:
                what = f"{profile} of GPU {share.index}" if profile else f"GPU {share.index}"
                raise later(f"no slice of {pod.node} has {what}")
            found += devices
        if len(found) != pod.device_count:
            has = f"{len(found)} of {pod.device_count} devices of its shares"
            raise later(f"slices of {pod.node} have {has}")
        return found

    async def _claim(self, pod: Pod, uid: str, count: int, asked: Asked) -> Claim:
        """The claim of this very pod, created if it is not there."""
        body = claim_manifest(
            pod,
            uid,
            name=asked.claim,
            device_class=_class_of(pod),
            count=count,
            labels=labels_of(pod, self._making),
            request=asked.request,
        )
        made = await self._store.create(body)
        if made is not None:
            return made
        found = await self._store.read(pod.namespace, asked.claim)
        if found is None:
            raise later("its claim was there and is gone")
        if not found.ours:
            raise never("NameTaken", f"the claim {asked.claim} belongs to somebody else")
        if uid not in found.pod_uids:
            await self._store.delete(pod.namespace, asked.claim, found)
            raise later("the claim of a former pod of this name is not gone yet")
        return found

    async def _allocate(
        self, claim: Claim, pod: Pod, uid: str, devices: list[DeviceId], asked: Asked
    ) -> None:
        device_class = _class_of(pod)
        config = self._view.config(device_class)
        if config is None:
            raise later(f"there is no device class {device_class}")
        body = allocation_patch(
            claim, pod, uid, devices=devices, config=config, request=asked.request
        )
        done = await self._store.patch(
            pod.namespace, asked.claim, body, of="/status", how=MERGE_PATCH
        )
        if done is None:
            raise later("its claim was changed meanwhile")


def _has_devices(pod: Pod) -> bool:
    return has_devices(pod.shares, pod.template.pod_set.gpu.mig_profile)


def _class_of(pod: Pod) -> str:
    return MIG_CLASS if pod.template.pod_set.gpu.mig_profile else WHOLE_CLASS
