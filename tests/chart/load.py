"""What a team does meanwhile: Jobs of two pods, and submissions by HTTP, until stopped."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

from deploy.kubelets.images import IMAGE
from muster.errors import MusterError
from shared.events.envelope import workload_id
from tests.chart.installation import TEAM, Installation, a_gang

PAUSE_SECONDS: Final = 2.0
PODS: Final = 2
SUBMISSION: Final[dict[str, Any]] = {
    "name": "by-http",
    "kind": "training",
    "pod_sets": [
        {
            "count": PODS,
            "gpu": {"count": 1},
            "cpu_milli": 100,
            "memory_mib": 64,
            "shm_mib": 64,
            "image": IMAGE,
            "command": ["sleep", "0.5"],
        }
    ],
}


class Load:
    """Runs within its `with`; `jobs` were created, `accepted` are ids with a 202.

    A submission that no gateway takes is sent again with the same key until one does.
    """

    def __init__(self, installation: Installation, name: str) -> None:
        self._installation = installation
        self._name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.jobs: list[str] = []
        self.accepted: list[str] = []
        self.refused = 0
        """Requests by HTTP without an answer, which were sent again."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE_SECONDS):
            key = f"{self._name}-{number}"
            self._installation.create(a_gang(key, "sleep 0.5", PODS))
            self.jobs.append(key)
            while not self._is_accepted(key):
                self.refused += 1
            number += 1

    def _is_accepted(self, key: str) -> bool:
        for address in self._installation.gateways()[:1]:
            try:
                with self._installation.client(address) as client:
                    client.submit(SUBMISSION, idempotency_key=key, team=TEAM)
            except MusterError:
                continue
            self.accepted.append(workload_id(TEAM, key))
            return True
        return False
