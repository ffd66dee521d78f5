"""The cluster that pods run in: Kubernetes, or the simulated cluster, behind one port.

Semantics are those of the Kubernetes API: create answers 409 when the name exists, bind and
delete take the uid as a precondition, a watch starts at a resource version and may answer 410.
Operations come in batches; each has its own result, and order between them is not promised.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import msgspec

from shared.core.model import GpuShare


class Pod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod as the cluster knows it. `phase`: Pending | Running | Succeeded | Failed."""

    name: str
    uid: str = ""
    resource_version: int = 0
    workload_id: str
    attempt: int
    rank: int
    size: int
    """Pods of the attempt; an observer can tell when it has seen all."""
    epoch: int
    team: str = ""
    node: str = ""
    shares: tuple[GpuShare, ...] = ()
    image: str = ""
    duration_seconds: float | None = None
    """Only read by the simulated cluster: how long the pod runs; None is for ever."""
    phase: str = "Pending"
    reason: str = ""
    deleting: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request. `create` takes `pod`; `bind` name, uid, node; `delete` name, uid, grace."""

    verb: Literal["create", "bind", "delete"]
    name: str
    uid: str = ""
    node: str = ""
    grace_seconds: int = 0
    pod: Pod | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one operation: an HTTP status and, where there is one, the pod."""

    status: int
    reason: str = ""
    pod: Pod | None = None


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """ADDED | MODIFIED | DELETED with the pod as it was then."""

    type: str
    pod: Pod


class Cluster(Protocol):
    """What the binder needs of a cluster."""

    async def apply(self, operations: Sequence[Operation]) -> list[Result]:
        """Try all; results in the order of the operations.

        Raises:
            Transient: the reply was lost; each operation may or may not have happened.
        """
        ...

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods and the resource version to watch from."""
        ...

    def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after `resource_version`, in batches.

        Raises:
            ResourceVersionExpired: 410; list again.
            Transient: the connection broke; watch again from the last version seen.
        """
        ...
