"""Pods that name Muster as their scheduler: what is heard of them, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from shared.core.kubernetes.namespace_quota import NamespaceQuota
from shared.core.native import GroupObject, GroupSource, NativePod


class PodsListed(msgspec.Struct, frozen=True, kw_only=True):
    """All of them by NAMESPACE/NAME; whatever is not among them is gone."""

    pods: Mapping[str, NativePod]


class PodChanged(msgspec.Struct, frozen=True, kw_only=True):
    """One is new or different; None: it is gone."""

    key: str
    pod: NativePod | None


class GroupChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What an object says of a group now; None: it is gone."""

    key: str
    told: GroupObject | None


class QuotasTold(msgspec.Struct, frozen=True, kw_only=True):
    """All ResourceQuotas without scopes, by NAMESPACE/NAME."""

    quotas: Mapping[str, NamespaceQuota]


class VolumeClaimsTold(msgspec.Struct, frozen=True, kw_only=True):
    """All PersistentVolumeClaims, by NAMESPACE/NAME: whether each has its volume."""

    bound: Mapping[str, bool]


class NativeInterrupted(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is heard of one kind of object until `NativeHeard`; what is known stays."""

    kind: str
    """The plural by which people name it: pods, jobs, a kind of groups."""
    problem: str


class NativeHeard(msgspec.Struct, frozen=True, kw_only=True):
    """All objects of a kind were told, if there are any, and what changes is told."""

    kind: str


NativeNews = (
    PodsListed
    | PodChanged
    | GroupChanged
    | QuotasTold
    | VolumeClaimsTold
    | NativeInterrupted
    | NativeHeard
)


class NativeSource(Protocol):
    """Where news of native pods come from."""

    async def follow(self, tell: Callable[[NativeNews], None]) -> None:
        """Tell all news until cancelled; never raises for what a server does."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class NativeNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What an object of others is told: a code and a sentence, as an event and a condition."""

    namespace: str
    name: str
    uid: str
    reason: str
    """A code in CamelCase."""
    message: str
    capacity: bool = False
    """One more node would help: its condition says `Unschedulable`, by which autoscalers grow."""


class PodNotice(NativeNotice, frozen=True, kw_only=True):
    """Of a pod, as its condition PodScheduled."""


class GroupNotice(NativeNotice, frozen=True, kw_only=True):
    """Of a PodGroup, as a condition where its status has one for it."""

    source: GroupSource
    scheduled: bool = False
    """All of its pods have their nodes."""
    turns: bool = False
    """Its condition says otherwise, or nothing, until now."""


class PodNotices(Protocol):
    """Writes notices onto pods and their groups."""

    async def write(self, notice: NativeNotice) -> None:
        """Write one; the same again changes nothing. An object that is gone is no error.

        Raises:
            Transient: it was not written; ask again.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
