"""How fast the API server creates and binds pods for a client that does nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from deploy.kube.nodes import node_name
from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.place import Place, now, per_second, used

NAMESPACE = "limit"
NOBODY = "nobody"
"""A scheduler that does not exist, so that a pod waits for a binding."""


def a_pod(number: int) -> dict[str, Any]:
    """The least that a pod of work has."""
    resources = {"cpu": "100m", "memory": "64Mi"}
    container = {
        "name": "main",
        "image": "registry.example.org/a/b:1",
        "resources": {"requests": resources, "limits": resources},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": {"app": "bench"}},
        "spec": {
            "schedulerName": NOBODY,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


async def create(
    connection: Connection, namespace: str, pods: Sequence[Mapping[str, Any]]
) -> None:
    """Create all, side by side."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    await _all_well([connection.request("POST", path, pod) for pod in pods])


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Pods a second that are created, that are bound, and of both together."""
    async with place.namespace(NAMESPACE) as connection:
        before, start = place.cpu(), now()
        await create(connection, NAMESPACE, [a_pod(number) for number in range(pods)])
        created = now()
        await _all_well(
            [_bind(connection, number, place.nodes) for number in range(pods)],
        )
        bound = now()
        return {
            "pods": pods,
            "creates_per_second": per_second(pods, created - start),
            "binds_per_second": per_second(pods, bound - created),
            "pods_per_second": per_second(pods, bound - start),
            "cpu_ms_per_pod": used(before, place.cpu(), pods),
        }


def _bind(connection: Connection, number: int, nodes: int) -> Any:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": f"pod-{number}"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node_name(number % nodes)},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/pod-{number}/binding"
    return connection.request("POST", path, body)


async def _all_well(requests: Sequence[Any]) -> None:
    answers = await asyncio.gather(*requests)
    wrong = [one for one in answers if one.status >= 300]
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(answers)} were refused: {wrong[0].body!r}")
