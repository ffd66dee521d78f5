"""Full lists and watches of one kind of object on an API server.

A list is read from the store itself (no resource version is asked for), in pages of one version.
A watch begins at the version of a list; bookmarks move its version on while nothing happens, and
the server ends it after `WATCH_SECONDS`: then it goes on from the last version seen. A server that
says nothing at all for longer is not there any more. It need not send bookmarks: of a kind that
does not change none comes with a version above that of the watch, unless etcd tells of progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import aiohttp
import msgspec

from shared.adapters.kubernetes.connection import FAILURES, UNAUTHORISED, Connection
from shared.adapters.kubernetes.objects import ApiStatus, Bookmark, Metadata, WatchLine, decoder
from shared.ports.errors import ResourceVersionExpired, Transient

PAGE: Final = 1_000
WATCH_SECONDS: Final = 60
SILENCE_SECONDS_MAX: Final = 75.0
"""Longer than a watch lasts, so that the server's end of it comes first."""
PAUSE_SECONDS: Final = 0.1
"""Between two watches: a server that ends each at once is not asked without a pause."""
OK: Final = 200
NOT_FOUND: Final = 404
GONE: Final = 410
_KINDS: Final = frozenset(("ADDED", "MODIFIED", "DELETED"))


class KindAbsent(Transient):
    """The server does not serve this kind now: its definition is not installed."""


class HasMetadata(Protocol):
    """An object of the API."""

    @property
    def metadata(self) -> Metadata:
        """Name, version and the like."""
        ...


Item = TypeVar("Item", bound=HasMetadata)


class ObjectCollection(Generic[Item]):
    """Reads the objects below `path` that `query` selects; holds nothing but the connection."""

    def __init__(
        self,
        connection: Connection,
        path: str,
        *,
        what: str,
        query: Mapping[str, str],
        pages: msgspec.json.Decoder[Any],
        items: msgspec.json.Decoder[Item],
        page: int = PAGE,
    ) -> None:
        """`what`: the plural that errors name the objects by; `pages` decodes a list of them.

        `page`: objects of one answer.
        """
        self._connection = connection
        self._path = path
        self._what = what
        self._query = dict(query)
        self._pages = pages
        self._items = items
        self._page = page
        self._lines = decoder(WatchLine)
        self._bookmarks = decoder(Bookmark)
        self._statuses = decoder(ApiStatus)

    async def read(self) -> tuple[list[Item], int]:
        """All of them and the version to watch from; raises Transient."""
        found: list[Item] = []
        version = 0
        async for items, version in self.pages():  # noqa: B007  # the last one counts
            found += items
        return found, version

    async def pages(self) -> AsyncIterator[tuple[tuple[Item, ...], int]]:
        """The same page by page, so that no more than one need be kept; raises Transient."""
        query = {**self._query, "limit": str(self._page)}
        what = f"list of {self._what}"
        while True:
            answer = await self._connection.request("GET", self._path, query=query)
            if answer.status == NOT_FOUND:
                raise KindAbsent(self._refused(what, answer.status, answer.body))
            if answer.status != OK:
                raise Transient(self._refused(what, answer.status, answer.body))
            try:
                page = self._pages.decode(answer.body)
            except msgspec.DecodeError as error:
                raise Transient(f"{what}: {error}") from error
            del answer
            yield page.items, int(page.metadata.resource_version)
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    async def watch(self, resource_version: int) -> AsyncIterator[list[tuple[str, Item]]]:
        """ADDED, MODIFIED or DELETED with the object, in batches; ends only by an error.

        Raises:
            ResourceVersionExpired: the version is no longer kept.
            Transient: the connection broke, or the server could not be understood.
        """
        version = resource_version
        what = f"watch of {self._what}"
        while True:
            query = {
                **self._query,
                "watch": "true",
                "resourceVersion": str(version),
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(WATCH_SECONDS),
            }
            try:
                stream = self._connection.stream(self._path, query, SILENCE_SECONDS_MAX)
                async with stream as response:
                    await self._require_ok(response)
                    async for lines in _batches(response):
                        version, events = self._decoded(lines, version)
                        if events:
                            yield events
                await asyncio.sleep(PAUSE_SECONDS)
            except FAILURES as error:
                raise Transient(f"{what}: {type(error).__name__}: {error}") from error
            except msgspec.DecodeError as error:
                raise Transient(f"{what}: {error}") from error

    def _decoded(self, lines: list[bytes], version: int) -> tuple[int, list[tuple[str, Item]]]:
        """The events of these lines and the last version in them."""
        events: list[tuple[str, Item]] = []
        for line in lines:
            told = self._lines.decode(line)
            if told.type == "ERROR":
                self._raise_error(told.object)
            if told.type in _KINDS:
                found = self._items.decode(told.object)
                events.append((told.type, found))
                version = int(found.metadata.resource_version)
            else:
                version = int(self._bookmarks.decode(told.object).metadata.resource_version)
        return version, events

    def _raise_error(self, body: bytes | msgspec.Raw) -> None:
        status = self._statuses.decode(body)
        if status.code == GONE:
            raise ResourceVersionExpired(status.message)
        words = f"{status.code} {status.reason}: {status.message}"
        raise Transient(f"watch of {self._what}: {words}")

    async def _require_ok(self, response: aiohttp.ClientResponse) -> None:
        if response.status == GONE:
            raise ResourceVersionExpired("the version is no longer kept")
        if response.status != OK:
            body = await response.read()
            raise Transient(self._refused(f"watch of {self._what}", response.status, body))

    def _refused(self, what: str, status: int, body: bytes) -> str:
        try:
            told = self._statuses.decode(body).message
        except msgspec.DecodeError:
            told = body[:200].decode(errors="replace")
        advice = "; renew the token of the kubeconfig" if status == UNAUTHORISED else ""
        return f"{what}: HTTP {status}: {told}{advice}"


async def _batches(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """The whole lines of each piece that came; a line may be larger than a piece."""
    rest = b""
    async for piece in response.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        whole = [line for line in lines if line]
        if whole:
            yield whole
