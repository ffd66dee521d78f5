"""`ports.PodLogs` by the API server's pods/log: a stream for each reader, as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import aiohttp

from shared.adapters.kubernetes.connection import FAILURES, Connection
from shared.adapters.kubernetes.finding import FoundPod, find_pod, path_of, told
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.pod_logs import LogRequest, LogsMissing, NoLogs

OK: Final = 200
NOT_BOUND: Final = 204
"""So the API server answers about a pod without a node."""
BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
SILENCE_SECONDS_MAX: Final = 86_400.0
"""A program may write nothing for long; the reader bounds the whole."""
REFUSAL_BYTES_MAX: Final = 65_536


class KubernetesPodLogs:
    """See the module; the session is opened by the first call."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._instance = settings.instance
        self._connection = Connection(settings)

    @asynccontextmanager
    async def read(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Pieces as they come. Raises NoLogs and Transient."""
        pod = await self._pod(request)
        async with AsyncExitStack() as stack:
            stream = self._connection.stream(
                path_of(pod, "log"), _query(pod, request), SILENCE_SECONDS_MAX
            )
            try:
                response = await stack.enter_async_context(stream)
                if response.status != OK:
                    await self._refuse(response)
            except FAILURES as error:
                raise Transient(f"logs: {type(error).__name__}: {error}") from error
            yield _pieces(response)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def _pod(self, wanted: LogRequest) -> FoundPod:
        pod = await find_pod(
            self._connection, self._instance, wanted.workload_id, wanted.attempt, wanted.rank
        )
        if pod is not None:
            return pod
        raise NoLogs(
            LogsMissing.GONE,
            f"there is no pod of rank {wanted.rank} in attempt {wanted.attempt}: pods and their "
            "logs are deleted when an attempt ends; `muster logs -f` reads them while it runs",
        )

    async def _refuse(self, response: aiohttp.ClientResponse) -> None:
        """Raise what an answer other than 200 means."""
        words = told(await response.content.read(REFUSAL_BYTES_MAX))
        if response.status == NOT_BOUND:
            raise NoLogs(LogsMissing.NOT_STARTED, "the pod has no node yet")
        if response.status == BAD_REQUEST and "waiting to start" in words:
            raise NoLogs(LogsMissing.NOT_STARTED, words)
        if response.status in {BAD_REQUEST, NOT_FOUND}:
            raise NoLogs(LogsMissing.GONE, words)
        raise Transient(f"logs: {response.status} {words}")


def _query(pod: FoundPod, request: LogRequest) -> dict[str, str]:
    query = {"container": pod.container, "limitBytes": str(request.bytes_max)}
    if request.follow:
        query["follow"] = "true"
    if request.tail_lines is not None:
        query["tailLines"] = str(request.tail_lines)
    if request.since_seconds is not None:
        query["sinceSeconds"] = str(request.since_seconds)
    return query


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in response.content.iter_any():
            yield piece
    except FAILURES as error:
        raise Transient(f"logs broke off: {type(error).__name__}: {error}") from error
