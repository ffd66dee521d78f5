"""How soon a pod says why it waits, while many others wait and were told so."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from services.native.judging import WAITING
from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.limit import create
from tests.benchmarks.kube.native import NAMESPACE, SECONDS_MAX, for_native_pods
from tests.benchmarks.kube.place import Place, now
from tests.benchmarks.kube.waiting import one_of_two, pods_told

MEASURED: Final = 100
LOOK_SECONDS: Final = 0.05
REST_SECONDS: Final = 0.5


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Seconds from the creation of a pod to its condition, one after the other."""
    async with place.namespace(NAMESPACE) as connection, for_native_pods(place):
        start = now()
        await create(connection, NAMESPACE, [one_of_two(number) for number in range(pods)])
        while await asyncio.to_thread(pods_told, place, WAITING) < pods:
            assert now() - start < SECONDS_MAX, "not all pods are told why they wait"
            await asyncio.sleep(1)
        all_told = now() - start
        took = sorted([await _seconds(connection, pods + number) for number in range(MEASURED)])
    return {
        "waiting": pods,
        "all_told_seconds": round(all_told, 1),
        "p50_ms": round(1000 * took[MEASURED // 2]),
        "p99_ms": round(1000 * took[MEASURED * 99 // 100]),
    }


async def _seconds(connection: Connection, number: int) -> float:
    pod = one_of_two(number)
    start = now()
    await create(connection, NAMESPACE, [pod])
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}"
    while True:
        answer = await connection.request("GET", path)
        conditions = json.loads(answer.body)["status"].get("conditions", ())
        if any(one["type"] == "PodScheduled" for one in conditions):
            break
        assert now() - start < SECONDS_MAX, f"{path} is not told why it waits"
        await asyncio.sleep(LOOK_SECONDS)
    took = now() - start
    await asyncio.sleep(REST_SECONDS)
    return took
