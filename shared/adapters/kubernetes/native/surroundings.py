"""What is beside native pods and decides whether they can be made or run: quotas and volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
import structlog

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.nodes.following import Follower, collection
from shared.adapters.kubernetes.objects import Metadata, Object
from shared.core.kubernetes.namespace_quota import NamespaceQuota

QUOTAS: Final = "/api/v1/resourcequotas"
CLAIMS: Final = "/api/v1/persistentvolumeclaims"
BOUND: Final = "Bound"
Read = TypeVar("Read")

log = structlog.get_logger("native")


class QuotaSpec(Object, frozen=True, kw_only=True):
    """Of a ResourceQuota: `Any` where only presence counts."""

    scopes: tuple[Any, ...] | None = None
    scope_selector: dict[str, Any] | None = None


class QuotaStatus(Object, frozen=True, kw_only=True):
    """Of a ResourceQuota."""

    hard: dict[str, str] = msgspec.field(default_factory=dict)
    used: dict[str, str] = msgspec.field(default_factory=dict)


class QuotaObject(Object, frozen=True, kw_only=True):
    """A ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class QuotaList(Object, frozen=True, kw_only=True):
    """A page of them."""

    metadata: Metadata = Metadata()
    items: tuple[QuotaObject, ...] = ()


class VolumeClaimStatus(Object, frozen=True, kw_only=True):
    """Of a PersistentVolumeClaim."""

    phase: str = ""


class VolumeClaimObject(Object, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata = Metadata()
    status: VolumeClaimStatus = VolumeClaimStatus()


class VolumeClaimList(Object, frozen=True, kw_only=True):
    """A page of them."""

    metadata: Metadata = Metadata()
    items: tuple[VolumeClaimObject, ...] = ()


def quotas(connection: Connection) -> Follower[QuotaObject, NamespaceQuota]:
    """Follows the quotas of all namespaces."""
    found = collection(
        connection, QUOTAS, what="resource quotas", pages=QuotaList, items=QuotaObject
    )
    return Follower("resource quotas", found, read_quota)


def volume_claims(connection: Connection) -> Follower[VolumeClaimObject, bool]:
    """Follows the claims of volumes of all namespaces."""
    found = collection(
        connection, CLAIMS, what="volume claims", pages=VolumeClaimList, items=VolumeClaimObject
    )
    return Follower("volume claims", found, lambda one: one.status.phase == BOUND)


def read_quota(found: QuotaObject) -> NamespaceQuota | None:
    """The quota; None of one that counts some pods alone."""
    if found.spec.scopes or found.spec.scope_selector:
        return None
    metadata, status = found.metadata, found.status
    return NamespaceQuota(
        namespace=metadata.namespace, name=metadata.name, hard=status.hard, used=status.used
    )


class TellingAll(Generic[Read]):
    """Tells all objects of a kind after each change, as one mapping that goes on changing."""

    def __init__(self, tell: Callable[[Mapping[str, Read]], None]) -> None:
        self._tell = tell
        self._items: dict[str, Read] = {}

    def listed(self, items: Mapping[str, Read], version: int) -> None:
        """All of them."""
        del version
        self._items = dict(items)
        self._tell(self._items)

    def changed(self, key: str, item: Read | None, version: int) -> None:
        """One is new, different or gone."""
        del version
        if item is None:
            self._items.pop(key, None)
        else:
            self._items[key] = item
        self._tell(self._items)

    def interrupted(self, problem: str) -> None:
        """What is known stays."""
        log.warning("the surroundings of pods are not heard", problem=problem)
