"""Simulated kubelets that were in the middle of a request as the API server died, go on.

A kubelet says what it has to say until it is heard. KWOK says it again where the connection was
refused, and forgets the pod where it broke off or no handshake came (`shouldRetry` in 0.8.0): such
a pod would run, start or go for ever. Whatever changes a pod makes KWOK look at it anew.
"""

import asyncio
import contextlib
import time
from typing import Any, Final

from deploy.local.processes import LocalError
from tests.fixtures.kube import KubeCluster
from tests.kube.pod_census import ENDED, Census

PAUSE_SECONDS: Final = 3.0
STILL_SECONDS: Final = 9.0
"""Longer than a pod of the load runs, and than it takes to start or to go."""
DURATION: Final = "muster.dev/duration-seconds"
REMINDED: Final = "kwok.muster.dev/reminded"


class Reminder:
    """Touches the pods in which nothing happens though something has to."""

    def __init__(self, kube: KubeCluster, census: Census) -> None:
        self._kube = kube
        self._census = census
        self._since: dict[tuple[str, str], float] = {}
        self.reminded = 0

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            with contextlib.suppress(OSError, LocalError):
                await asyncio.to_thread(self._remind)
            await asyncio.sleep(PAUSE_SECONDS)

    def _remind(self) -> None:
        now = time.monotonic()
        pods = [pod for pods in self._census.read().values() for pod in pods if expected(pod)]
        states = [(pod, _state(pod)) for pod in pods]
        self._since = {state: self._since.get(state, now) for _, state in states}
        still = [pod for pod, state in states if now - self._since[state] >= STILL_SECONDS]
        with self._kube.client() as admin:
            for pod in still:
                metadata = pod["metadata"]
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                body = {"metadata": {"annotations": {REMINDED: str(now)}}}
                self.reminded += admin.request("PATCH", path, body)[0] == 200


def expected(pod: dict[str, Any]) -> bool:
    """Whether its kubelet has something to do: start it, end it after its time, or let it go."""
    if not pod["spec"].get("nodeName"):
        return False
    metadata, phase = pod["metadata"], pod["status"].get("phase")
    if "deletionTimestamp" in metadata:
        return True
    return phase not in ENDED and (phase == "Pending" or DURATION in metadata["annotations"])


def _state(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
