"""`ports.NodeSource` by a Kubernetes API server: four kinds, each followed for itself.

Pods are selected at the server: those that are bound and have not ended, so the others cost
nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.nodes.following import Follower, collection
from shared.adapters.kubernetes.nodes.objects import (
    ClaimList,
    ClaimObject,
    NodeList,
    NodeObject,
    RequestingPod,
    RequestingPodList,
    SliceList,
    SliceObject,
)
from shared.adapters.kubernetes.nodes.reading import read_claim, read_node, read_pod, read_slice
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.cluster_nodes import Changed, Interrupted, Item, Kind, Listed, News

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
ON_NODES: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
SLICES_A_PAGE: Final = 100
"""A slice has up to 128 devices."""

Tell = Callable[[News], None]


class KubernetesNodes:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings, *, node_selector: str = "") -> None:
        """`node_selector`: a label selector of the nodes that are told; empty: all."""
        self._connection = Connection(settings)
        instance = settings.instance
        only_nodes = {"labelSelector": node_selector} if node_selector else {}
        self._followers: dict[Kind, Follower[Any, Item]] = {
            Kind.NODES: Follower(
                Kind.NODES,
                self._collection(Kind.NODES, NODES, NodeList, NodeObject, query=only_nodes),
                read_node,
            ),
            Kind.SLICES: Follower(
                Kind.SLICES,
                self._collection(Kind.SLICES, SLICES, SliceList, SliceObject, page=SLICES_A_PAGE),
                read_slice,
            ),
            Kind.CLAIMS: Follower(
                Kind.CLAIMS,
                self._collection(Kind.CLAIMS, CLAIMS, ClaimList, ClaimObject),
                lambda found: read_claim(found, instance),
            ),
            Kind.PODS: Follower(
                Kind.PODS,
                self._collection(
                    Kind.PODS,
                    PODS,
                    RequestingPodList,
                    RequestingPod,
                    query={"fieldSelector": ON_NODES},
                ),
                lambda found: read_pod(found, instance),
            ),
        }

    async def follow(self, tell: Tell) -> None:
        """Tell all news until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind, one in self._followers.items():
                tasks.create_task(one.run(_Telling(kind, tell)))

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def _collection(  # one line for each kind stands above
        self,
        kind: Kind,
        path: str,
        pages: Any,  # noqa: ANN401  # the type of a list
        items: type[Any],
        **how: Any,  # noqa: ANN401  # query and page
    ) -> Any:  # noqa: ANN401
        return collection(self._connection, path, what=kind, pages=pages, items=items, **how)


class _Telling:
    """Makes news of what is told of one kind."""

    def __init__(self, kind: Kind, tell: Tell) -> None:
        self._kind = kind
        self._tell = tell

    def listed(self, items: Mapping[str, Item], version: int) -> None:
        del version
        self._tell(Listed(kind=self._kind, items=items))

    def changed(self, key: str, item: Item | None, version: int) -> None:
        del version
        self._tell(Changed(kind=self._kind, key=key, item=item))

    def interrupted(self, problem: str) -> None:
        self._tell(Interrupted(kind=self._kind, problem=problem))
