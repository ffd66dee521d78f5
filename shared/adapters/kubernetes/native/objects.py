"""The few fields of native pods and their Jobs that are read (see `..objects`)."""

from __future__ import annotations

from typing import Any

import msgspec

from shared.adapters.kubernetes.objects import Condition, Metadata, Object


class OwnerReference(Object, frozen=True, kw_only=True):
    """An owner; at most one is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class NativeMetadata(Metadata, frozen=True, kw_only=True):
    """With the owners."""

    creation_timestamp: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class Toleration(Object, frozen=True, kw_only=True):
    """Of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Port(Object, frozen=True, kw_only=True):
    """Of a container."""

    host_port: int = 0


class ContainerResources(Object, frozen=True, kw_only=True):
    """Of a container or a pod; null stands for nothing."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class NativeContainer(Object, frozen=True, kw_only=True):
    """What one container asks for."""

    name: str = ""
    image: str = ""
    resources: ContainerResources = ContainerResources()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""


class Named(Object, frozen=True, kw_only=True):
    """A scheduling gate."""

    name: str = ""


class SchedulingGroup(Object, frozen=True, kw_only=True):
    """The upstream PodGroup of a pod."""

    pod_group_name: str = ""


class ClaimSource(Object, frozen=True, kw_only=True):
    """The claim that a volume is of."""

    claim_name: str = ""


class Volume(Object, frozen=True, kw_only=True):
    """Of a pod; an ephemeral one has a claim that is named after both."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class NativeSpec(Object, frozen=True, kw_only=True):
    """Of a pod; `Any` where only its presence counts."""

    node_name: str = ""
    containers: tuple[NativeContainer, ...] = ()
    init_containers: tuple[NativeContainer, ...] = ()
    overhead: dict[str, str] | None = None
    resources: ContainerResources | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[Named, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: tuple[Any, ...] = ()
    resource_claims: tuple[Any, ...] = ()
    volumes: tuple[Volume, ...] = ()


class NativeStatus(Object, frozen=True, kw_only=True):
    """Of a pod."""

    phase: str = "Pending"


class NativePodObject(Object, frozen=True, kw_only=True):
    """A pod."""

    metadata: NativeMetadata = NativeMetadata()
    spec: NativeSpec = NativeSpec()
    status: NativeStatus = NativeStatus()


class NativePodList(Object, frozen=True, kw_only=True):
    """A page of pods."""

    metadata: Metadata = Metadata()
    items: tuple[NativePodObject, ...] = ()


class JobSpec(Object, frozen=True, kw_only=True):
    """Of a Job; an absent number is one."""

    completion_mode: str = ""
    parallelism: int | None = None
    completions: int | None = None


class JobStatus(Object, frozen=True, kw_only=True):
    """Of a Job."""

    conditions: tuple[Condition, ...] = ()


class JobObject(Object, frozen=True, kw_only=True):
    """A Job."""

    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobList(Object, frozen=True, kw_only=True):
    """A page of Jobs."""

    metadata: Metadata = Metadata()
    items: tuple[JobObject, ...] = msgspec.field(default=())


class GroupCustomObject(Object, frozen=True, kw_only=True):
    """A PodGroup of some kind, a JobSet, a job of Kubeflow: read by `group_objects.py`."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


class GroupCustomObjectList(Object, frozen=True, kw_only=True):
    """A page of one kind of these."""

    metadata: Metadata = Metadata()
    items: tuple[GroupCustomObject, ...] = msgspec.field(default=())
