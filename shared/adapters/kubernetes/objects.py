"""The few fields of the API's objects that are read; everything else is passed over unread.

Decoding only these takes a tenth of the time of the whole objects. Every field has a default:
a server of another version may leave out what it likes.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec


class Object(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The API writes names in camelCase."""


class Metadata(Object, frozen=True, kw_only=True):
    """Of an object or a list."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str = ""
    finalizers: tuple[str, ...] = ()
    continue_: str = msgspec.field(name="continue", default="")


class Bookmark(Object, frozen=True, kw_only=True):
    """Of an object of the kind that is watched nothing but its version; the rest may be null."""

    metadata: Metadata = Metadata()


class Owner(Object, frozen=True, kw_only=True):
    """An owner: its end is the end of the object."""

    uid: str = ""


class OwnedMetadata(Metadata, frozen=True, kw_only=True):
    """Of what ends with others."""

    owner_references: tuple[Owner, ...] = ()


class OwnedObject(Object, frozen=True, kw_only=True):
    """What ends with others."""

    metadata: OwnedMetadata = OwnedMetadata()


class PodClaim(Object, frozen=True, kw_only=True):
    """A ResourceClaim that a pod names."""

    resource_claim_name: str = ""


class Spec(Object, frozen=True, kw_only=True):
    """Of a pod."""

    node_name: str = ""
    resource_claims: tuple[PodClaim, ...] = ()


class ContainerStateDetail(Object, frozen=True, kw_only=True):
    """Of a container that waits or has ended."""

    reason: str = ""
    message: str = ""
    exit_code: int = 0


class ContainerState(Object, frozen=True, kw_only=True):
    """At most one is there; none while it runs or is not told."""

    waiting: ContainerStateDetail | None = None
    terminated: ContainerStateDetail | None = None


class ResourceHealth(Object, frozen=True, kw_only=True):
    """A device that the container has; of a device plugin its UUID."""

    resource_id: str = msgspec.field(name="resourceID", default="")


class ResourceStatus(Object, frozen=True, kw_only=True):
    """The devices of one resource or claim."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(Object, frozen=True, kw_only=True):
    """Of one container."""

    state: ContainerState = ContainerState()
    allocated_resources_status: tuple[ResourceStatus, ...] = ()


class Condition(Object, frozen=True, kw_only=True):
    """Of a pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ExtendedClaim(Object, frozen=True, kw_only=True):
    """The claim that stands for the devices that a pod asks for by count."""

    resource_claim_name: str = ""


class PodStatus(Object, frozen=True, kw_only=True):
    """Of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaim | None = None


class PodObject(Object, frozen=True, kw_only=True):
    """A pod."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: PodStatus = PodStatus()


class PodList(Object, frozen=True, kw_only=True):
    """A page of pods."""

    metadata: Metadata = Metadata()
    items: tuple[PodObject, ...] = ()


class WatchLine(Object, frozen=True, kw_only=True):
    """One event of a watch; what `object` is depends on the type."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class StatusCause(Object, frozen=True, kw_only=True):
    """A field that breaks a rule."""

    field: str = ""
    message: str = ""
    reason: str = ""


class StatusDetails(Object, frozen=True, kw_only=True):
    """What an answer says about the object that was asked for."""

    name: str = ""
    kind: str = ""
    """The plural, as in a path."""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: float = 0


class ApiStatus(Object, frozen=True, kw_only=True):
    """The answer to a request that failed."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


T = TypeVar("T", bound=Object)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that takes numbers and texts for each other, as servers have done."""
    return msgspec.json.Decoder(kind, strict=False)
