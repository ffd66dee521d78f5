"""What is told of the nodes of a cluster, of their devices, and of the pods on them.

Four kinds of object are followed, each for itself: first all that there are, then each change. A
source that loses its way tells all of a kind again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from shared.core.kubernetes.devices import DeviceSlice
from shared.core.kubernetes.health_taints import TaintFields
from shared.core.kubernetes.inventory import KubernetesNode
from shared.core.kubernetes.requests import TakenResources


class Kind(StrEnum):
    """Kinds of object, by the plural that the API uses."""

    NODES = "nodes"
    SLICES = "resourceslices"
    CLAIMS = "resourceclaims"
    PODS = "pods"


class PodUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that is bound and has not ended."""

    node: str
    ours: bool
    taken: TakenResources = TakenResources()
    """Of a pod of others; nothing of ours, as the ledger knows it."""
    held: tuple[int, ...] = ()
    """Of a pod of ours: the GPUs that the ledger has given to it, by index."""
    uuids: tuple[str, ...] = ()
    """Those that its kubelet says it gave to it, of a device plugin."""


class ClaimUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The GPUs that a claim of others holds, as (pool, minor number)."""

    gpus: tuple[tuple[str, int], ...]


Item = KubernetesNode | DeviceSlice | PodUse | ClaimUse


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """All objects of a kind, by key; whatever is not among them is gone."""

    kind: Kind
    items: Mapping[str, Item]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One object is new or different; None: it is gone, or says nothing any more."""

    kind: Kind
    key: str
    item: Item | None


class Interrupted(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is heard of a kind until it is listed again; what is known stays."""

    kind: Kind
    problem: str


News = Listed | Changed | Interrupted


class NodeSource(Protocol):
    """Where news of nodes come from."""

    async def follow(self, tell: Callable[[News], None]) -> None:
        """Tell all news until cancelled; never raises for what a server does."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class NodeTaints(Protocol):
    """Where the taints of nodes are written."""

    async def put(self, node: str, taints: Sequence[TaintFields]) -> bool:
        """Give a node these taints of Muster and no other of Muster; whether any was written.

        Taints of others stay. A node that is not there is passed over.

        Raises:
            Transient: it was not done; try again later.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
