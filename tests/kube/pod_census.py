"""Counts the pods of one Muster on a real API server, again and again, while faults go on.

Whatever the ledger says: no workload may have live pods of two attempts, no GPU may be given
twice, and no gang may stay bound in part.
"""

import asyncio
import json
import time
import urllib.parse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from deploy.local.processes import LocalError
from tests.fixtures.kube import KubeCluster

PAUSE_SECONDS: Final = 1.0
MILLI_OF_A_GPU: Final = 1_000
ENDED: Final = ("Succeeded", "Failed")
Attempt = tuple[str, int]
"""Workload and attempt."""
Pods = dict[Attempt, list[dict[str, Any]]]


class Census:
    """`doubles` that were ever seen; the longest that a gang was bound in part."""

    def __init__(self, kube: KubeCluster, instance: str) -> None:
        self._kube = kube
        self._path = "/api/v1/pods?labelSelector=" + urllib.parse.quote(
            f"muster.dev/instance={instance}"
        )
        self._partial_since: dict[Attempt, float] = {}
        self.doubles: set[str] = set()
        self.longest_partial_seconds = 0.0
        self.readings = 0

    async def run(self) -> None:
        """Go on until cancelled; while the API server is away nothing is read."""
        while True:
            try:
                self.note(await asyncio.to_thread(self.read))
            except (OSError, LocalError):
                self._partial_since.clear()
            await asyncio.sleep(PAUSE_SECONDS)

    def read(self) -> Pods:
        """All pods of this Muster by attempt."""
        found: Pods = defaultdict(list)
        with self._kube.client() as admin:
            for pod in admin.demand("GET", self._path)["items"]:
                labels = pod["metadata"]["labels"]
                attempt = int(labels["muster.dev/attempt"])
                found[labels["muster.dev/workload"], attempt].append(pod)
        return found

    def note(self, found: Pods) -> None:
        """Take one reading into account."""
        now = time.monotonic()
        self.readings += 1
        self.doubles.update(doubles(found))
        partial = partly_bound(found)
        self._partial_since = {one: self._partial_since.get(one, now) for one in partial}
        lasted = [now - since for since in self._partial_since.values()]
        self.longest_partial_seconds = max(self.longest_partial_seconds, *lasted, 0.0)


def doubles(found: Mapping[Attempt, Iterable[dict[str, Any]]]) -> set[str]:
    """Workloads with live pods of two attempts, and GPUs that are given to more than they hold."""
    attempts: dict[str, set[int]] = defaultdict(set)
    given: dict[str, int] = defaultdict(int)
    for (workload, attempt), pods in found.items():
        for pod in filter(_holds, pods):
            attempts[workload].add(attempt)
            for share in json.loads(pod["metadata"]["annotations"]["muster.dev/shares"]):
                milli = share.get("milli", MILLI_OF_A_GPU)
                given[f"GPU {share['index']} of {pod['spec']['nodeName']}"] += milli
    twice = {f"{one}: attempts {sorted(two)}" for one, two in attempts.items() if len(two) > 1}
    return twice | {f"{gpu}: {milli}" for gpu, milli in given.items() if milli > MILLI_OF_A_GPU}


def partly_bound(found: Mapping[Attempt, list[dict[str, Any]]]) -> list[Attempt]:
    """Attempts of which some pods are bound and some are not, and none is going or has ended."""
    return [
        attempt
        for attempt, pods in found.items()
        if 0 < sum(map(_holds, pods)) < _size(pods) and not any(map(_goes, pods))
    ]


def whole(found: Mapping[Attempt, list[dict[str, Any]]], workload: str) -> bool:
    """Whether all pods of one attempt of it run."""
    return any(
        name == workload
        and len(pods) == _size(pods)
        and all(pod["status"]["phase"] == "Running" and not _goes(pod) for pod in pods)
        for (name, _), pods in found.items()
    )


def _holds(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ENDED


def _goes(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in ENDED


def _size(pods: list[dict[str, Any]]) -> int:
    return int(pods[0]["metadata"]["annotations"]["muster.dev/size"])
