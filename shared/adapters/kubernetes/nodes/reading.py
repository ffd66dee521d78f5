"""From the API's objects to what the core reads; what another driver publishes is passed over.

Texts that many objects share are kept once: a thousand nodes have 70,000 MIG devices.
"""

from __future__ import annotations

from datetime import datetime
from sys import intern
from typing import Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.nodes.objects import (
    ClaimObject,
    DeviceObject,
    NodeObject,
    RequestingContainer,
    RequestingPod,
    SliceObject,
)
from shared.adapters.kubernetes.reading import decoded_shares, given
from shared.core.kubernetes.devices import (
    DeviceSlice,
    MigPart,
    WholeGpu,
    minor_of,
    place_of,
)
from shared.core.kubernetes.inventory import KubernetesNode, Taint
from shared.core.kubernetes.quantity import MIB, at_most
from shared.core.kubernetes.requests import InitContainer, taken_by
from shared.core.kubernetes.standing import Readiness
from shared.ports.cluster import ENDED
from shared.ports.cluster_nodes import ClaimUse, PodUse

DRIVER: Final = "gpu.nvidia.com"
ALWAYS: Final = "Always"
_BLOCKING: Final = frozenset(("NoSchedule", "NoExecute"))
_COUNTER: Final = "memory-slice-"
_STATIC: Final = "memorySlice"
"""How the driver names memory slices: of a placement, and of an instance that exists."""


def read_node(found: NodeObject) -> KubernetesNode:
    """The node."""
    status = found.status
    return KubernetesNode(
        name=found.metadata.name,
        labels={intern(key): intern(text) for key, text in found.metadata.labels.items()},
        taints=tuple(
            Taint(key=one.key, value=one.value, effect=one.effect) for one in found.spec.taints
        ),
        unschedulable=found.spec.unschedulable,
        readiness=readiness_of(found),
        capacity=status.capacity or {},
        allocatable=status.allocatable or {},
        images=tuple(one.names for one in status.images or () if one.names),
    )


def readiness_of(found: NodeObject) -> Readiness:
    """Its condition Ready; a node without one is not."""
    for one in found.status.conditions or ():
        if one.type == "Ready":
            return Readiness(
                ready=one.status == "True",
                since_ms=_milliseconds(one.last_transition_time),
                reason=one.reason,
                message=one.message,
            )
    return Readiness()


def _milliseconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


def read_slice(found: SliceObject) -> DeviceSlice | None:
    """The slice; None of another driver, or of no node."""
    spec = found.spec
    if spec.driver != DRIVER or not spec.node_name:
        return None
    devices = spec.devices or ()
    return DeviceSlice(
        node=intern(spec.node_name),
        pool=intern(spec.pool.name),
        generation=spec.pool.generation,
        total=spec.pool.resource_slice_count,
        gpus=tuple(gpu for one in devices if (gpu := _whole(one)) is not None),
        parts=tuple(part for one in devices if (part := _part(one)) is not None),
    )


def _text(device: DeviceObject, name: str) -> str:
    told = device.attributes.get(name)
    return intern(told.string or told.version) if told is not None else ""


def _healthy(device: DeviceObject) -> bool:
    return not any(one.effect in _BLOCKING for one in device.taints)


def _whole(device: DeviceObject) -> WholeGpu | None:
    minor = minor_of(device.name)
    if minor is None or _text(device, "type") != "gpu":
        return None
    memory = device.capacity.get("memory")
    return WholeGpu(
        minor=minor,
        uuid=_text(device, "uuid"),
        product=_text(device, "productName"),
        memory_mib=at_most(memory.value, MIB) if memory is not None else 0,
        driver=_text(device, "driverVersion"),
        cuda=_text(device, "cudaDriverVersion"),
        pci=_text(device, "resource.kubernetes.io/pciBusID"),
        healthy=_healthy(device),
    )


def _part(device: DeviceObject) -> MigPart | None:
    minor, place = minor_of(device.name), place_of(device.name)
    if minor is None or place is None or _text(device, "type") != "mig":
        return None
    slices = memory_slices(device)
    return MigPart(
        minor=minor,
        parent_uuid=_text(device, "parentUUID"),
        profile=_text(device, "profile"),
        profile_id=place[0],
        start=min(slices, default=place[1]),
        size=len(slices),
        uuid=_text(device, "uuid"),
        product=_text(device, "productName"),
        driver=_text(device, "driverVersion"),
        cuda=_text(device, "cudaDriverVersion"),
        healthy=_healthy(device),
    )


def memory_slices(device: DeviceObject) -> set[int]:
    """Those of its GPU that it takes, as its counters or its capacity name them."""
    counters = [name for one in device.consumes_counters for name in one.counters]
    told = [
        name.removeprefix(prefix)
        for prefix, names in ((_COUNTER, counters), (_STATIC, list(device.capacity)))
        for name in names
        if name.startswith(prefix)
    ]
    return {int(number) for number in told if number.isascii() and number.isdigit()}


def read_claim(found: ClaimObject, instance: str) -> ClaimUse | None:
    """What a claim of others holds; None of ours, or where it holds no GPU.

    One of ours that a pod of others uses besides is theirs too: it outlives our pod.
    """
    allocation, metadata = found.status.allocation, found.metadata
    owners = [one.uid for one in metadata.owner_references]
    used_by_others = any(one.uid not in owners for one in found.status.reserved_for)
    if allocation is None or (naming.is_ours(metadata.labels, instance) and not used_by_others):
        return None
    gpus = tuple(
        (intern(one.pool), minor)
        for one in allocation.devices.results
        if one.driver == DRIVER
        and not one.admin_access
        and (minor := minor_of(one.device)) is not None
    )
    return ClaimUse(gpus=gpus) if gpus else None


def read_pod(found: RequestingPod, instance: str) -> PodUse | None:
    """What a pod takes of its node; None where it is on none, or has ended.

    Raises:
        ValueError: an amount is no quantity.
    """
    spec, metadata = found.spec, found.metadata
    if not spec.node_name or found.status.phase in ENDED:
        return None
    node = intern(spec.node_name)
    uuids = tuple(map(intern, given(found.status.container_statuses)))
    if naming.is_ours(metadata.labels, instance):
        shares = decoded_shares(metadata.annotations.get(naming.SHARES, ""))
        held = tuple(one.index for one in shares)
        return PodUse(node=node, ours=True, held=held, uuids=uuids)
    whole_pod = spec.resources.requests if spec.resources is not None else None
    taken = taken_by(
        map(_requests, spec.containers),
        (
            InitContainer(requests=_requests(one), restarts=one.restart_policy == ALWAYS)
            for one in spec.init_containers
        ),
        overhead=spec.overhead,
        whole_pod=whole_pod or {},
    )
    return PodUse(node=node, ours=False, taken=taken, uuids=uuids)


def _requests(container: RequestingContainer) -> dict[str, str]:
    return container.resources.requests or {}
