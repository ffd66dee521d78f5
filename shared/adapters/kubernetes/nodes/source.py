"""`ports.NodeSource` by a Kubernetes API server: four lists, each with a watch after it.

A list is read page by page and only what the core needs is kept. Where a watch ends (its version
is no longer kept, the connection broke), the kind is listed again, after a pause that grows while
the server does not answer. Pods are selected at the server: those that are bound and have not
ended, so the others cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from shared.adapters.kubernetes.collection import Collection, HasMetadata
from shared.adapters.kubernetes.connection import Connection
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
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.cluster_nodes import Changed, Interrupted, Item, Kind, Listed, News
from shared.ports.errors import ResourceVersionExpired, Transient

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
ON_NODES: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
SLICES_A_PAGE: Final = 100
"""A slice has up to 128 devices."""
OTHERS_A_PAGE: Final = 500
PAUSE_SECONDS_MIN: Final = 0.25
PAUSE_SECONDS_MAX: Final = 15.0
RELIST_SECONDS: Final = 600.0
"""A watch that missed something is put right so long after its list."""

Tell = Callable[[News], None]
Found = TypeVar("Found", bound=HasMetadata)


class KubernetesNodes:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings, *, node_selector: str = "") -> None:
        """`node_selector`: a label selector of the nodes that are told; empty: all."""
        self._connection = Connection(
            config=settings.config,
            context=settings.context,
            requests_at_once=settings.requests_at_once,
        )
        instance = settings.instance
        only_nodes = {"labelSelector": node_selector} if node_selector else {}
        self._followers: tuple[_Follower[Any], ...] = (
            _Follower(
                Kind.NODES,
                self._collection(NODES, Kind.NODES, NodeList, NodeObject, only_nodes),
                read_node,
            ),
            _Follower(
                Kind.SLICES,
                self._collection(
                    SLICES, Kind.SLICES, SliceList, SliceObject, {}, page=SLICES_A_PAGE
                ),
                read_slice,
            ),
            _Follower(
                Kind.CLAIMS,
                self._collection(CLAIMS, Kind.CLAIMS, ClaimList, ClaimObject, {}),
                lambda found: read_claim(found, instance),
            ),
            _Follower(
                Kind.PODS,
                self._collection(
                    PODS, Kind.PODS, RequestingPodList, RequestingPod, {"fieldSelector": ON_NODES}
                ),
                lambda found: read_pod(found, instance),
            ),
        )

    async def follow(self, tell: Tell) -> None:
        """Tell all news until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for one in self._followers:
                tasks.create_task(one.run(tell))

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    def _collection(  # one line for each kind stands above
        self,
        path: str,
        what: Kind,
        pages: Any,  # noqa: ANN401  # the type of a list
        items: type[Any],
        query: dict[str, str],
        *,
        page: int = OTHERS_A_PAGE,
    ) -> Collection[Any]:
        return Collection(
            self._connection,
            path,
            what=what,
            query=query,
            pages=decoder(pages),
            items=decoder(items),
            page=page,
        )


class _Follower(Generic[Found]):
    """Lists and watches one kind for ever."""

    def __init__(
        self, kind: Kind, objects: Collection[Found], read: Callable[[Found], Item | None]
    ) -> None:
        self._kind = kind
        self._objects = objects
        self._read = read
        self._pause_seconds = PAUSE_SECONDS_MIN

    async def run(self, tell: Tell) -> None:
        while True:
            try:
                version = await self._list(tell)
                self._pause_seconds = PAUSE_SECONDS_MIN
                async with asyncio.timeout(RELIST_SECONDS):
                    await self._watch(version, tell)
            except (ResourceVersionExpired, TimeoutError):
                continue
            except Transient as error:
                tell(Interrupted(kind=self._kind, problem=str(error)))
                await asyncio.sleep(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    async def _list(self, tell: Tell) -> int:
        items: dict[str, Item] = {}
        version = 0
        async for page, version in self._objects.pages():  # noqa: B007  # the last one counts
            for found in page:
                item = self._item(found)
                if item is not None:
                    items[_key(found)] = item
        tell(Listed(kind=self._kind, items=items))
        return version

    async def _watch(self, version: int, tell: Tell) -> None:
        async for events in self._objects.watch(version):
            for kind, found in events:
                item = None if kind == "DELETED" else self._item(found)
                tell(Changed(kind=self._kind, key=_key(found), item=item))

    def _item(self, found: Found) -> Item | None:
        """What is read of an object; raises Transient for an amount that is none."""
        try:
            return self._read(found)
        except ValueError as error:
            raise Transient(f"{self._kind}: {_key(found)}: {error}") from error


def _key(found: HasMetadata) -> str:
    """The same for all time of an object; another object of its name is another pod."""
    metadata = found.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
