"""A claim of a pod: what is written to the API server, and what is read of any claim.

The pod owns its claim, so it goes with it. The finalizer is what makes the controller manager take
the devices away from a claim when its pod has ended or is gone: without it they stay allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.nodes.objects import ClaimObject
from shared.adapters.kubernetes.nodes.reading import DRIVER
from shared.adapters.kubernetes.pins.devices import DeviceId
from shared.ports.cluster import Pod

REQUEST: Final = "gpus"
"""The one request of a claim of ours, and the name by which its pod knows the claim."""
NAME_CHARACTERS_MAX: Final = 253
EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim for what a pod asks for by the name of a resource."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A claim as it is now."""

    version: int
    uid: str = ""
    ours: bool = False
    pod_uids: tuple[str, ...] = ()
    """Of the pods that own it: one, or all that share its GPU."""
    reserved: tuple[str, ...] = ()
    """Of the pods that may use it."""
    protected: bool = False
    """It has the finalizer; it loses it whenever its devices are let go."""
    deleting: bool = False
    allocated: bool = False
    devices: tuple[DeviceId, ...] = ()
    """Devices of NVIDIA's driver that no other claim may have meanwhile."""
    used_by_others: bool = False
    """A pod that does not own it may use it."""


def read_claim(found: ClaimObject, instance: str) -> Claim:
    """The claim; it holds nothing until it is allocated."""
    metadata, status = found.metadata, found.status
    owners = tuple(one.uid for one in metadata.owner_references)
    reserved = tuple(one.uid for one in status.reserved_for)
    results = status.allocation.devices.results if status.allocation is not None else ()
    return Claim(
        version=int(metadata.resource_version),
        uid=metadata.uid,
        ours=naming.is_ours(metadata.labels, instance),
        pod_uids=owners,
        reserved=reserved,
        protected=FINALIZER in metadata.finalizers,
        deleting=bool(metadata.deletion_timestamp),
        allocated=status.allocation is not None,
        devices=tuple(
            DeviceId(one.pool, one.device)
            for one in results
            if one.driver == DRIVER and not one.admin_access
        ),
        used_by_others=naming.SHARED not in metadata.labels
        and any(uid not in owners for uid in reserved),
    )


def shared_name(pod: Pod) -> str:
    """The claim by which the pods of a namespace share the GPU of this pod's share."""
    index = pod.shares[0].index
    name = f"gpu-{index}.{pod.node}"
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return f"gpu-{index}.{sha256(pod.node.encode()).hexdigest()}"


def owner_patch(pod: Pod, uid: str) -> dict[str, Any]:
    """One more owner pod: when the last one ends, the claim ends; the finalizer again."""
    return {"metadata": {"ownerReferences": [_owner(pod, uid)], "finalizers": [FINALIZER]}}


def _owner(pod: Pod, uid: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid}


def claim_manifest(  # each is one field
    pod: Pod,
    uid: str,
    *,
    name: str,
    device_class: str,
    count: int,
    labels: Mapping[str, str],
    request: str = REQUEST,
) -> dict[str, Any]:
    """The claim of a pod with this uid, for so many devices of a class.

    Of an adopted pod it stands for the GPUs that the pod asks for by count (KEP-5004).
    """
    owner: dict[str, Any] = _owner(pod, uid)
    notes = {}
    if pod.group:
        owner["controller"], notes = True, {EXTENDED: naming.TRUE}
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "labels": dict(labels),
            "annotations": notes,
            "finalizers": [FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": [{"name": request, "exactly": exactly}]}},
    }


def reservation_patch(claim: Claim, pod: Pod, uid: str) -> dict[str, Any]:
    """The status by which the pod may use the claim besides, at the version that was read."""
    return {
        "metadata": {"uid": claim.uid, "resourceVersion": str(claim.version)},
        "status": {"reservedFor": [{"resource": "pods", "name": pod.name, "uid": uid}]},
    }


def allocation_patch(
    claim: Claim,
    pod: Pod,
    uid: str,
    *,
    devices: Sequence[DeviceId],
    config: Sequence[Mapping[str, Any]],
    request: str = REQUEST,
) -> dict[str, Any]:
    """The status that gives these devices of its node to the pod, at the version that was read.

    `config`: of the device class; drivers read only what is copied into the allocation.
    """
    patch = reservation_patch(claim, pod, uid)
    results = [
        {"request": request, "driver": DRIVER, "pool": one.pool, "device": one.name}
        for one in devices
    ]
    copied = [{**one, "source": "FromClass", "requests": [request]} for one in config]
    on_node = {"key": "metadata.name", "operator": "In", "values": [pod.node]}
    patch["status"]["allocation"] = {
        "devices": {"results": results, "config": copied},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [on_node]}]},
    }
    return patch
