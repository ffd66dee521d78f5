"""Writes a second at the API server while many native pods wait, and the reason of all changes.

Each pod is one of a gang of two of which the other is never made: `WaitingForPods`. Then a quota
of the namespace is full, which is another reason for every one. Counted are the events and the
patches of statuses of pods by all clients; while no pod is bound these are the native service's.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from services.native.judging import QUOTA_FULL, WAITING
from services.native.noticing import WRITES_A_SECOND_MAX
from tests.benchmarks.kube.limit import create
from tests.benchmarks.kube.native import NAMESPACE, a_native_pod, for_native_pods
from tests.benchmarks.kube.place import Place, now
from tests.benchmarks.pipeline import processes
from tests.support.costs import cpu_seconds, memory_mib

WINDOW_SECONDS: Final = 5.0
WINDOWS: Final = 12
"""For each of the two reasons."""
WRITES: Final = ("POST events", "PATCH pods status")


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """The most and the mean of all windows, of each reason, and what the service takes."""
    async with place.namespace(NAMESPACE) as connection, for_native_pods(place) as stage:
        before, start = cpu_seconds((await processes(stage))["native"]), now()
        await create(connection, NAMESPACE, [one_of_two(number) for number in range(pods)])
        windows = await _windows(place)
        _fill_quota(place, pods)
        windows += await _windows(place)
        service = (await processes(stage))["native"]
        figures = {
            "native_cpu_percent": round(
                100 * (cpu_seconds(service) - before) / (now() - start), 1
            ),
            "native_memory_mib": memory_mib(service[0]),
        }
        told = {reason: pods_told(place, reason) for reason in (WAITING, QUOTA_FULL)}
    assert max(windows) <= WRITES_A_SECOND_MAX, windows
    assert all(told.values()), f"a reason is told to no pod: {told}"
    return {
        "pods": pods,
        "writes_per_second_max": max(windows),
        "writes_per_second_mean": round(sum(windows) / len(windows), 1),
        "writes_per_second": windows,
        "pods_told": told,
        **figures,
    }


async def _windows(place: Place) -> list[float]:
    """Writes a second, window by window."""
    found = []
    before, start = await place.requests(), now()
    for _ in range(WINDOWS):
        await asyncio.sleep(WINDOW_SECONDS)
        after, end = await place.requests(), now()
        found.append(round(_writes(before, after) / (end - start), 1))
        before, start = after, end
    return found


def _writes(before: Counter[str], after: Counter[str]) -> int:
    return sum(after[one] - before[one] for one in WRITES)


def _fill_quota(place: Place, pods: int) -> None:
    body = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": str(pods)}}}
    with place.kube.client() as admin:
        admin.demand("POST", f"/api/v1/namespaces/{NAMESPACE}/resourcequotas", body)


def pods_told(place: Place, reason: str) -> int:
    """Pods that an event tells this reason."""
    path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector=reason%3D{reason}"
    with place.kube.client() as admin:
        return len(admin.demand("GET", path)["items"])


def one_of_two(number: int) -> dict[str, Any]:
    """Its other one is never made."""
    pod = a_native_pod(number)
    group = {
        "labels": {"muster.dev/group": f"g{number}"},
        "annotations": {"muster.dev/group-size": "2"},
    }
    return {**pod, "metadata": {**pod["metadata"], **group}}
