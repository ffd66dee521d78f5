"""The few fields of nodes, slices, claims and foreign pods that are read (see `..objects`)."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.adapters.kubernetes.objects import ContainerStatus, Metadata, Object, OwnedObject


class TaintObject(Object, frozen=True, kw_only=True):
    """Of a node or a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Object, frozen=True, kw_only=True):
    """Of a node."""

    taints: tuple[TaintObject, ...] = ()
    unschedulable: bool = False


class NodeCondition(Object, frozen=True, kw_only=True):
    """Of a node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class NodeImage(Object, frozen=True, kw_only=True):
    """An image that a node has."""

    names: tuple[str, ...] | None = None
    """null where its last name went to another image."""


class NodeStatus(Object, frozen=True, kw_only=True):
    """Of a node; a null stands for nothing."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    images: tuple[NodeImage, ...] | None = None


class NodeObject(Object, frozen=True, kw_only=True):
    """A node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NodeList(Object, frozen=True, kw_only=True):
    """A page of nodes."""

    metadata: Metadata = Metadata()
    items: tuple[NodeObject, ...] = ()


class Attribute(Object, frozen=True, kw_only=True):
    """One of a device: a text or a version here."""

    string: str = ""
    version: str = ""


class Capacity(Object, frozen=True, kw_only=True):
    """An amount that a device has, or takes of a counter."""

    value: str = "0"


class Consumed(Object, frozen=True, kw_only=True):
    """What a device takes of a counter set."""

    counters: dict[str, Capacity] = msgspec.field(default_factory=dict)


class DeviceObject(Object, frozen=True, kw_only=True):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, Capacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[Consumed, ...] = ()
    taints: tuple[TaintObject, ...] = ()


class Pool(Object, frozen=True, kw_only=True):
    """Of a slice."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(Object, frozen=True, kw_only=True):
    """Of a slice."""

    driver: str = ""
    node_name: str = ""
    pool: Pool = Pool()
    devices: tuple[DeviceObject, ...] | None = None


class SliceObject(Object, frozen=True, kw_only=True):
    """A ResourceSlice."""

    metadata: Metadata = Metadata()
    spec: SliceSpec = SliceSpec()


class SliceList(Object, frozen=True, kw_only=True):
    """A page of slices."""

    metadata: Metadata = Metadata()
    items: tuple[SliceObject, ...] = ()


class AllocatedDevice(Object, frozen=True, kw_only=True):
    """A device that a claim holds."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class AllocatedDevices(Object, frozen=True, kw_only=True):
    """All that it holds."""

    results: tuple[AllocatedDevice, ...] = ()


class Allocation(Object, frozen=True, kw_only=True):
    """Of a claim."""

    devices: AllocatedDevices = AllocatedDevices()


class Consumer(Object, frozen=True, kw_only=True):
    """The consumer that a claim is reserved for."""

    uid: str = ""


class ClaimStatus(Object, frozen=True, kw_only=True):
    """Of a claim."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ClaimObject(OwnedObject, frozen=True, kw_only=True):
    """A ResourceClaim."""

    status: ClaimStatus = ClaimStatus()


class ClaimList(Object, frozen=True, kw_only=True):
    """A page of claims."""

    metadata: Metadata = Metadata()
    items: tuple[ClaimObject, ...] = ()


class Requests(Object, frozen=True, kw_only=True):
    """Of a container or a pod."""

    requests: dict[str, str] | None = None


class RequestingContainer(Object, frozen=True, kw_only=True):
    """Of a pod."""

    resources: Requests = Requests()
    restart_policy: str = ""


class RequestingSpec(Object, frozen=True, kw_only=True):
    """Of a pod."""

    node_name: str = ""
    containers: tuple[RequestingContainer, ...] = ()
    init_containers: tuple[RequestingContainer, ...] = ()
    overhead: dict[str, str] = msgspec.field(default_factory=dict)
    resources: Requests | None = None


class RequestingStatus(Object, frozen=True, kw_only=True):
    """Of a pod."""

    phase: str = "Pending"
    container_statuses: tuple[ContainerStatus, ...] = ()


class RequestingPod(Object, frozen=True, kw_only=True):
    """A pod, for what it asks."""

    metadata: Metadata = Metadata()
    spec: RequestingSpec = RequestingSpec()
    status: RequestingStatus = RequestingStatus()


class RequestingPodList(Object, frozen=True, kw_only=True):
    """A page of pods."""

    metadata: Metadata = Metadata()
    items: tuple[RequestingPod, ...] = ()


class ClassSpec(Object, frozen=True, kw_only=True):
    """Of a device class."""

    config: tuple[dict[str, Any], ...] = ()


class ClassObject(Object, frozen=True, kw_only=True):
    """A DeviceClass."""

    metadata: Metadata = Metadata()
    spec: ClassSpec = ClassSpec()


class ClassList(Object, frozen=True, kw_only=True):
    """A page of device classes."""

    metadata: Metadata = Metadata()
    items: tuple[ClassObject, ...] = ()
