"""Follows one kind of object for ever: a list, a watch from there, and again.

A list is read page by page and only what is made of each object is kept. Where a watch ends (its
version is no longer kept, the connection broke), the kind is listed again, after a pause that
grows while the server does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from shared.adapters.kubernetes.collection import HasMetadata, KindAbsent, ObjectCollection
from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.objects import decoder
from shared.ports.errors import ResourceVersionExpired, Transient

A_PAGE: Final = 500
PAUSE_SECONDS_MIN: Final = 0.25
PAUSE_SECONDS_MAX: Final = 15.0
ABSENT_SECONDS: Final = 15.0
"""A kind that the server does not serve is asked for again after so long."""
RELIST_SECONDS: Final = 600.0
"""A watch that missed something is put right so long after its list."""

Found = TypeVar("Found", bound=HasMetadata)
Read = TypeVar("Read")
Told_contra = TypeVar("Told_contra", contravariant=True)


class Sink(Protocol[Told_contra]):
    """The receiver of the objects of a kind."""

    def listed(self, items: Mapping[str, Told_contra], version: int) -> None:
        """All of them, by key, as of a version; whatever is not among them is gone."""
        ...

    def changed(self, key: str, item: Told_contra | None, version: int) -> None:
        """One is new or different since that version; None: it is gone."""
        ...

    def interrupted(self, problem: str) -> None:
        """Nothing is heard until the next list."""
        ...


class Follower(Generic[Found, Read]):
    """Lists and watches one kind for ever."""

    def __init__(
        self,
        what: str,
        objects: ObjectCollection[Found],
        read: Callable[[Found], Read | None],
        *,
        optional: bool = False,
    ) -> None:
        """`what`: the plural that errors name them by; `read`: None of what says nothing.

        `optional`: of a kind that the server does not serve there are none.
        """
        self._optional = optional
        self.what = what
        self._objects = objects
        self._read = read
        self._pause_seconds = PAUSE_SECONDS_MIN

    async def run(self, sink: Sink[Read]) -> None:
        """Tell all news until cancelled."""
        while True:
            try:
                version = await self._list(sink)
                self._pause_seconds = PAUSE_SECONDS_MIN
                async with asyncio.timeout(RELIST_SECONDS):
                    await self._watch(version, sink)
            except (ResourceVersionExpired, TimeoutError):
                continue
            except Transient as error:
                if self._optional and isinstance(error, KindAbsent):
                    sink.listed({}, 0)
                    await asyncio.sleep(ABSENT_SECONDS)
                    continue
                sink.interrupted(str(error))
                await asyncio.sleep(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    async def _list(self, sink: Sink[Read]) -> int:
        items: dict[str, Read] = {}
        version = 0
        async for page, version in self._objects.pages():  # noqa: B007  # the last one counts
            for found in page:
                item = self._item(found)
                if item is not None:
                    items[key_of(found)] = item
        sink.listed(items, version)
        return version

    async def _watch(self, version: int, sink: Sink[Read]) -> None:
        async for events in self._objects.watch(version):
            for kind, found in events:
                item = None if kind == "DELETED" else self._item(found)
                sink.changed(key_of(found), item, int(found.metadata.resource_version))

    def _item(self, found: Found) -> Read | None:
        """What is read of an object; raises Transient for an amount that is none."""
        try:
            return self._read(found)
        except ValueError as error:
            raise Transient(f"{self.what}: {key_of(found)}: {error}") from error


def key_of(found: HasMetadata) -> str:
    """The same for all time of an object; another object of its name is another pod."""
    metadata = found.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def collection(
    connection: Connection,
    path: str,
    *,
    what: str,
    pages: Any,  # noqa: ANN401  # the type of a list
    items: type[Any],
    query: Mapping[str, str] | None = None,
    page: int = A_PAGE,
) -> ObjectCollection[Any]:
    """The objects below a path, with their decoders."""
    page_decoder: msgspec.json.Decoder[Any] = decoder(pages)
    return ObjectCollection(
        connection,
        path,
        what=what,
        query=query or {},
        pages=page_decoder,
        items=decoder(items),
        page=page,
    )
