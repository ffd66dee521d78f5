"""Reads all pods of the simulated cluster, in the form of those of an API server.

They are told in lines: the resource version first, then lists of pods. A pod with a workload is
ours, so it gets the labels by which those of an API server are found.
"""

from __future__ import annotations

from typing import Final

import msgspec

from operations.check.api_pods import ApiPod, Metadata, PodSpec, PodStatus
from operations.check.model import CannotCheck
from operations.check.pod_labels import ATTEMPT, DEVICES, INSTANCE, MANAGED_BY, RANK, WORKLOAD

PATH: Final = "/v1/pods"
CONNECT_SECONDS_MAX: Final = 5
READ_SECONDS_MAX: Final = 60
LINE_BYTES_MAX: Final = 64 << 20


class _SimulatedPod(msgspec.Struct):
    """A pod as the simulated cluster tells it; one that others made has no workload."""

    name: str
    workload_id: str
    attempt: int
    rank: int
    namespace: str = "default"
    uid: str = ""
    node: str = ""
    devices: tuple[str, ...] = ()
    phase: str = "Pending"


_lines: Final = msgspec.json.Decoder(tuple[_SimulatedPod, ...])


async def read_simulated_pods(url: str, instance: str) -> list[ApiPod]:
    """All pods of the simulated cluster at `url`, as pods of the Muster `instance`.

    Raises:
        CannotCheck: no whole list comes from there.
    """
    import aiohttp

    time_out = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS_MAX, total=READ_SECONDS_MAX)
    try:
        async with (
            aiohttp.ClientSession(timeout=time_out, read_bufsize=LINE_BYTES_MAX) as session,
            session.get(url.rstrip("/") + PATH, raise_for_status=True) as response,
        ):
            await response.content.readline()
            return [
                _as_api_pod(pod, instance)
                async for line in response.content
                for pod in _lines.decode(line)
            ]
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise CannotCheck(
            f"simulated cluster at {url}: {type(error).__name__}: {error}; is its address right?"
        ) from error


def _as_api_pod(pod: _SimulatedPod, instance: str) -> ApiPod:
    labels = {
        MANAGED_BY: "muster",
        INSTANCE: instance,
        WORKLOAD: pod.workload_id,
        ATTEMPT: str(pod.attempt),
        RANK: str(pod.rank),
    }
    return ApiPod(
        metadata=Metadata(
            name=pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            labels=labels if pod.workload_id else {},
            annotations={DEVICES: ",".join(pod.devices)},
        ),
        spec=PodSpec(node_name=pod.node),
        status=PodStatus(phase=pod.phase),
    )
