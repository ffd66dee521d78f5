"""The cluster behind the HTTP API of `shared.simulator.cluster`.

Every request has a time-out. A reply that did not come means that nothing is known of the
operations in it: `UNKNOWN`. The watch is never trusted to be alive: heartbeats come every few
seconds, and silence breaks it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NoReturn

import aiohttp
import msgspec

from shared.ports.cluster import UNKNOWN, Pod, PodOperation, PodResult, WatchEvent
from shared.ports.errors import ResourceVersionExpired, Transient

REQUEST_SECONDS_MAX: Final = 10.0
SILENCE_SECONDS_MAX: Final = 15.0
READ_BYTES: Final = 1 << 20
GONE: Final = 410
OK: Final = 200

_FAILURES: Final = (aiohttp.ClientError, TimeoutError, ConnectionError, msgspec.DecodeError)


class SimulatedCluster:
    """`ports.Cluster` by HTTP; the session is opened by the first call."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._encoder = msgspec.json.Encoder()
        self._results = msgspec.json.Decoder(list[PodResult])
        self._pods = msgspec.json.Decoder(list[Pod])
        self._events = msgspec.json.Decoder(list[WatchEvent])

    async def apply(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """Try all; without an answer to the request, each operation is `UNKNOWN`."""
        body = self._encoder.encode(operations)
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                async with self._opened().post("/v1/operations", data=body) as response:
                    answer = await response.read()
                    _require_ok(response.status, answer)
            results = self._results.decode(answer)
        except (*_FAILURES, Transient) as error:
            return _unknown(operations, f"{type(error).__name__}: {error}")
        if len(results) != len(operations):
            return _unknown(operations, f"{len(results)} results came")
        return results

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods and the resource version to watch from. Raises Transient."""
        pods: list[Pod] = []
        version = None
        try:
            async with self._opened().get("/v1/pods") as response:
                _require_ok(response.status, b"")
                async for line in _lines(response):
                    if version is None:
                        version = int(msgspec.json.decode(line)["resource_version"])
                    else:
                        pods += self._pods.decode(line)
        except _FAILURES as error:
            raise Transient(f"cluster: {type(error).__name__}: {error}") from error
        if version is None:
            raise Transient("cluster: the list has no resource version")
        return pods, version

    async def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after `resource_version`, in batches; ends only by an error."""
        query = {"resource_version": str(resource_version)}
        try:
            async with self._opened().get("/v1/watch", params=query) as response:
                _require_ok(response.status, b"")
                async for line in _lines(response):
                    if line.startswith(_ERROR):
                        _raise_error(line)
                    events = self._events.decode(line)
                    if events:
                        yield events
        except _FAILURES as error:
            raise Transient(f"watch: {type(error).__name__}: {error}") from error
        raise Transient("watch: the cluster closed it")

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            time_out = aiohttp.ClientTimeout(
                total=None, sock_connect=2, sock_read=SILENCE_SECONDS_MAX
            )
            self._session = aiohttp.ClientSession(
                self._url, timeout=time_out, read_bufsize=READ_BYTES
            )
        return self._session


def _unknown(operations: Sequence[PodOperation], message: str) -> list[PodResult]:
    return [PodResult(status=UNKNOWN, reason="ReplyLost", message=message)] * len(operations)


class _Error(msgspec.Struct, frozen=True):
    """An event that ends a watch after the answer 200."""

    code: int = 0
    message: str = ""


_ERROR: Final = b'[{"type":"ERROR"'
_errors: Final = msgspec.json.Decoder(list[_Error])


def _raise_error(line: bytes) -> NoReturn:
    error = _errors.decode(line)[0]
    if error.code == GONE:
        raise ResourceVersionExpired(error.message)
    raise Transient(f"watch: {error.code}: {error.message}")


def _require_ok(status: int, body: bytes) -> None:
    """Any other status says that the cluster cannot answer now; nothing is known."""
    if status != OK:
        raise Transient(f"cluster: HTTP {status}: {body[:200].decode(errors='replace')}")


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines of any length; a last one without its end is not given."""
    parts: list[Any] = []
    async for chunk in response.content.iter_any():
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for piece in rest:
            yield b"".join(parts)
            parts = [piece]
