"""`ports.PodLogs` of a cluster that keeps none, as the simulated one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared.ports.pod_logs import LogRequest, LogsMissing, NoLogs


class NoPodLogs:
    """Says that there are none, and what to do."""

    @asynccontextmanager
    async def read(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Raises NoLogs."""
        raise NoLogs(
            LogsMissing.NOT_KEPT,
            "there are no logs: pods of a simulated cluster run nothing; "
            f"`muster events {request.workload_id}` tells what happened, and on a Kubernetes "
            "cluster (MUSTER_CLUSTER=kubernetes) there are logs",
        )
        yield  # makes it a generator

    async def close(self) -> None:
        """Nothing is open."""
