"""`ports.PodExec` by the API server's pods/exec: a WebSocket of `v5.channel.k8s.io`.

The first byte of each message is its channel: 1 standard output, 2 standard error, 3 how the
command ended, a Status in which the cause `ExitCode` has the number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from shared.adapters.kubernetes.connection import FAILURES, Connection
from shared.adapters.kubernetes.finding import FoundPod, find_pod, path_of
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient
from shared.ports.pod_exec import CommandEnded, ExecCommand, NoPod, Output

PROTOCOL: Final = "v5.channel.k8s.io"
STREAMS: Final = {1: "stdout", 2: "stderr"}
END: Final = 3
REFUSALS: Final = frozenset((400, 404, 409, 500))
"""So the API server answers about a container that does not run."""


class ExecCause(msgspec.Struct, frozen=True):
    """Of the end of a command."""

    reason: str = ""
    message: str = ""


class ExecDetails(msgspec.Struct, frozen=True):
    """Of the end of a command."""

    causes: tuple[ExecCause, ...] = ()


class ExecStatus(msgspec.Struct, frozen=True):
    """How a command ended."""

    status: str = ""
    message: str = ""
    details: ExecDetails | None = None


_statuses: Final = msgspec.json.Decoder(ExecStatus)


class KubernetesPodExec:
    """See the module; the session is opened by the first call."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._instance = settings.instance
        self._connection = Connection(settings)

    @asynccontextmanager
    async def run(
        self, request: ExecCommand
    ) -> AsyncIterator[AsyncIterator[Output | CommandEnded]]:
        """What it writes, and last how it ended. Raises NoPod and Transient."""
        pod = await find_pod(
            self._connection,
            self._instance,
            request.workload_id,
            request.attempt,
            request.rank,
        )
        if pod is None:
            raise NoPod(f"there is no pod of rank {request.rank} in attempt {request.attempt}")
        if not pod.spec.node_name or pod.status.phase != "Running":
            raise NoPod(f"the pod of rank {request.rank} does not run: it is {pod.status.phase}")
        async with AsyncExitStack() as stack:
            try:
                socket = await stack.enter_async_context(
                    self._connection.websocket(
                        path_of(pod, "exec"), _query(pod, request), PROTOCOL
                    )
                )
            except aiohttp.WSServerHandshakeError as error:
                if error.status in REFUSALS:
                    raise NoPod(f"the cluster runs no command there ({error.status})") from error
                raise Transient(f"exec: {error.status} {error.message}") from error
            except FAILURES as error:
                raise Transient(f"exec: {type(error).__name__}: {error}") from error
            yield _messages(socket)

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def _query(pod: FoundPod, request: ExecCommand) -> list[tuple[str, str]]:
    fixed = [("container", pod.container), ("stdout", "true"), ("stderr", "true")]
    return fixed + [("command", word) for word in request.command]


async def _messages(
    socket: aiohttp.ClientWebSocketResponse,
) -> AsyncIterator[Output | CommandEnded]:
    """Until the command has ended; raises Transient where the end is not told."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == END:
            yield ended_of(data)
            return
        if channel in STREAMS and data:
            yield Output(STREAMS[channel], data)
    raise Transient(f"exec broke off: {socket.exception() or socket.close_code}")


def ended_of(data: bytes) -> CommandEnded:
    """The exit code of a Status; None where the command could not be run."""
    try:
        status = _statuses.decode(data)
    except msgspec.DecodeError:
        return CommandEnded(None, data.decode(errors="replace")[:500])
    if status.status == "Success":
        return CommandEnded(0)
    for cause in status.details.causes if status.details else ():
        if cause.reason == "ExitCode" and cause.message.isascii() and cause.message.isdigit():
            return CommandEnded(int(cause.message), status.message)
    return CommandEnded(None, status.message)
