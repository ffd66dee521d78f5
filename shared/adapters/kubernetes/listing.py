"""Full lists and watches of the pods of one Muster.

A list is read from the store itself (no resource version is asked for), in pages of one version.
A watch begins at the version of a list; bookmarks move its version on while nothing happens, and
the server ends it after `WATCH_SECONDS`: then it goes on from the last version seen. A server that
says nothing at all for longer is not there any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import msgspec

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.connection import FAILURES, UNAUTHORISED, Connection
from shared.adapters.kubernetes.objects import (
    ApiStatus,
    PodList,
    PodObject,
    WatchLine,
    decoder,
)
from shared.adapters.kubernetes.reading import read_pod
from shared.ports.cluster import Pod, WatchEvent
from shared.ports.errors import ResourceVersionExpired, Transient

PODS: Final = "/api/v1/pods"
PAGE: Final = 1_000
WATCH_SECONDS: Final = 120
SILENCE_SECONDS_MAX: Final = 75.0
"""Bookmarks come about once a minute."""
PAUSE_SECONDS: Final = 0.1
"""Between two watches: a server that ends each at once is not asked without a pause."""
OK: Final = 200
GONE: Final = 410
_KINDS: Final = frozenset(("ADDED", "MODIFIED", "DELETED"))


class Listing:
    """Reads pods; holds nothing but the connection."""

    def __init__(self, connection: Connection, instance: str) -> None:
        self._connection = connection
        self._instance = instance
        self._selector = naming.selector(instance)
        self._lists = decoder(PodList)
        self._lines = decoder(WatchLine)
        self._pods = decoder(PodObject)
        self._statuses = decoder(ApiStatus)

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods of this Muster and the version to watch from; raises Transient."""
        pods: list[Pod] = []
        query = {"labelSelector": self._selector, "limit": str(PAGE)}
        while True:
            answer = await self._connection.request("GET", PODS, query=query)
            if answer.status != OK:
                raise Transient(self._refused("list of pods", answer.status, answer.body))
            try:
                page = self._lists.decode(answer.body)
            except msgspec.DecodeError as error:
                raise Transient(f"list of pods: {error}") from error
            pods += [read_pod(found, self._instance) for found in page.items]
            if not page.metadata.continue_:
                return pods, int(page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    async def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after the version, in batches; ends only by an error (see the port)."""
        version = resource_version
        while True:
            query = {
                "watch": "true",
                "labelSelector": self._selector,
                "resourceVersion": str(version),
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(WATCH_SECONDS),
            }
            try:
                async with self._connection.stream(PODS, query, SILENCE_SECONDS_MAX) as response:
                    await self._require_ok(response)
                    async for lines in _batches(response):
                        version, events = self._decoded(lines, version)
                        if events:
                            yield events
                await asyncio.sleep(PAUSE_SECONDS)
            except FAILURES as error:
                raise Transient(f"watch of pods: {type(error).__name__}: {error}") from error
            except msgspec.DecodeError as error:
                raise Transient(f"watch of pods: {error}") from error

    def _decoded(self, lines: list[bytes], version: int) -> tuple[int, list[WatchEvent]]:
        """The events of these lines and the last version in them."""
        events: list[WatchEvent] = []
        for line in lines:
            told = self._lines.decode(line)
            if told.type == "ERROR":
                self._raise_error(told.object)
            found = self._pods.decode(told.object)
            version = int(found.metadata.resource_version)
            if told.type in _KINDS:
                pod = read_pod(found, self._instance)
                events.append(WatchEvent(type=told.type, pod=pod))
        return version, events

    def _raise_error(self, body: bytes | msgspec.Raw) -> None:
        """Of an event that ends the watch, though its answer began with 200."""
        status = self._statuses.decode(body)
        if status.code == GONE:
            raise ResourceVersionExpired(status.message)
        raise Transient(f"watch of pods: {status.code} {status.reason}: {status.message}")

    async def _require_ok(self, response: aiohttp.ClientResponse) -> None:
        if response.status == GONE:
            raise ResourceVersionExpired("the version is no longer kept")
        if response.status != OK:
            body = await response.read()
            raise Transient(self._refused("watch of pods", response.status, body))

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
