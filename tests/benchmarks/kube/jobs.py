"""Indexed Jobs of eight pods that name Muster: from the first creation to the last binding.

The controller manager makes the pods. Whole or not at all: until the end no look finds a Job of
which some pods have a node and others, seconds later, still have none.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any, Final

from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.native import NAMESPACE, SECONDS_MAX, a_native_pod, for_native_pods
from tests.benchmarks.kube.place import Place, now, per_second

GANG: Final = 8
LOOK_SECONDS: Final = 1.0
PARTLY_SECONDS_MAX: Final = 15.0
"""A gang is bound pod by pod: so long it may be seen in parts."""
NAME: Final = "batch.kubernetes.io/job-name"
JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Jobs of eight with a GPU each, as many as the pods fill."""
    count = pods // GANG
    async with place.namespace(NAMESPACE) as connection, for_native_pods(place):
        start = now()
        await asyncio.to_thread(_create, place, count)
        partly = await _all_bound(connection, count)
        seconds = now() - start
        await asyncio.to_thread(_delete, place, count)
    assert partly <= PARTLY_SECONDS_MAX, f"a Job was bound in part for {partly} s"
    return {
        "jobs": count,
        "pods_per_second": per_second(count * GANG, seconds),
        "seconds": round(seconds, 2),
        "longest_in_part_seconds": round(partly, 1),
    }


def _create(place: Place, count: int) -> None:
    with place.kube.client() as admin:
        for number in range(count):
            admin.demand("POST", JOBS, _job(number))


def _delete(place: Place, count: int) -> None:
    """Their pods too, which would be made again; a request for all takes longer than it may."""
    with place.kube.client() as admin:
        for number in range(count):
            path = f"{JOBS}/job-{number}?propagationPolicy=Background"
            admin.demand("DELETE", path, None)


async def _all_bound(connection: Connection, count: int) -> float:
    """Wait; the longest time for which a Job was seen with some of its pods bound."""
    deadline, since, longest = now() + SECONDS_MAX, dict[str, float](), 0.0
    while True:
        bound = await _bound(connection)
        whole = sum(pods == GANG for pods in bound.values())
        partly = {name for name, pods in bound.items() if pods < GANG}
        since = {name: since.get(name, now()) for name in partly}
        longest = max([longest, *(now() - at for at in since.values())])
        if whole == count:
            return longest
        assert now() < deadline, f"{whole} of {count} Jobs are whole"
        await asyncio.sleep(LOOK_SECONDS)


async def _bound(connection: Connection) -> Counter[str]:
    """Pods with a node, by Job."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    answer = await connection.request("GET", path, query={"fieldSelector": "spec.nodeName!="})
    return Counter(one["metadata"]["labels"][NAME] for one in json.loads(answer.body)["items"])


def _job(number: int) -> dict[str, Any]:
    template = {"spec": a_native_pod(number)["spec"]}
    spec = {
        "completionMode": "Indexed",
        "parallelism": GANG,
        "completions": GANG,
        "template": template,
    }
    metadata = {"name": f"job-{number}"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
