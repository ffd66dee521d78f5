"""`python -m deploy.kubelets.dns`: names of Services for pods, as a cluster's DNS server answers.

Names are as Kubernetes specifies them: `SERVICE.NAMESPACE.svc.cluster.local` has the
addresses of a headless Service, `HOSTNAME.SERVICE...` that of one endpoint. The answer is read
from EndpointSlices once in a second, for as long as clients may keep it: pods that wait for a name
ask again and again, and on a busy machine they would be answered when they no longer listen.
"""

import argparse
import contextlib
import functools
import socket
import struct
import sys
import time
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from deploy.kube.api import ApiClient

PORT: Final = 53
SUFFIX: Final = ("svc", "cluster", "local")
TTL_SECONDS: Final = 1
NAMES_MAX: Final = 64
QUERY_BYTES_MAX: Final = 512
_HEADER: Final = struct.Struct("!HHHHHH")
_ANSWER: Final = struct.Struct("!HHHIH4s")
_ADDRESS, _INTERNET = 1, 1
_RESPONSE, _NO_SUCH_NAME, _FAILED = 0x8580, 3, 2
_POINTER_TO_NAME: Final = 0xC00C


def main() -> int:
    """Answer for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    arguments = parser.parse_args()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((arguments.address, PORT))
        while True:
            query, sender = server.recvfrom(QUERY_BYTES_MAX)
            with contextlib.suppress(ValueError, IndexError, struct.error):
                server.sendto(answer(query, arguments.kubeconfig), sender)


def answer(query: bytes, kubeconfig: Path) -> bytes:
    """The reply to a query with one question.

    Raises:
        ValueError, IndexError, struct.error: it is no query.
    """
    number, _, questions, *_ = _HEADER.unpack_from(query)
    if questions != 1:
        raise ValueError(f"{questions} questions")
    labels, end = _labels(query, _HEADER.size)
    kind, _ = struct.unpack_from("!HH", query, end)
    try:
        second = int(time.monotonic() / TTL_SECONDS)
        addresses = _addresses(tuple(labels), kubeconfig, second)
    except OSError as error:
        print(f"{'.'.join(labels)}: {error}", file=sys.stderr, flush=True)
        return _reply(number, query[_HEADER.size : end + 4], [], _FAILED)
    wanted = addresses if kind == _ADDRESS else []
    return _reply(number, query[_HEADER.size : end + 4], wanted, 0 if addresses else _NO_SUCH_NAME)


def _reply(number: int, question: bytes, addresses: Iterable[str], code: int) -> bytes:
    records = [
        _ANSWER.pack(_POINTER_TO_NAME, _ADDRESS, _INTERNET, TTL_SECONDS, 4, socket.inet_aton(one))
        for one in addresses
    ]
    header = _HEADER.pack(number, _RESPONSE | code, 1, len(records), 0, 0)
    return header + question + b"".join(records)


def _labels(query: bytes, at: int) -> tuple[list[str], int]:
    """The labels of the name at this place, and where it ends."""
    labels = []
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    return labels, at + 1


@functools.lru_cache(NAMES_MAX)
def _addresses(labels: tuple[str, ...], kubeconfig: Path, _second: int) -> list[str]:
    if labels[-len(SUFFIX) :] != SUFFIX:
        return []
    *hostname, service, namespace = labels[: -len(SUFFIX)]
    selector = urllib.parse.quote(f"kubernetes.io/service-name={service}")
    path = f"/apis/discovery.k8s.io/v1/namespaces/{urllib.parse.quote(namespace)}/endpointslices"
    with contextlib.closing(ApiClient(kubeconfig)) as client:
        found = client.request("GET", f"{path}?labelSelector={selector}")[1].get("items", [])
    return [
        address
        for endpoint in _endpoints(found)
        if not hostname or [endpoint.get("hostname")] == hostname
        for address in endpoint["addresses"]
    ]


def _endpoints(slices: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Those that are to be told: ready, or of a Service that publishes them before."""
    for one in slices:
        for endpoint in one.get("endpoints") or ():
            if endpoint.get("conditions", {}).get("ready") is not False:
                yield endpoint


if __name__ == "__main__":
    sys.exit(main())
