"""`ports.NativeSource` by a Kubernetes API server: pods that name Muster, and Indexed Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.native.objects import (
    JobList,
    JobObject,
    NativePodList,
    NativePodObject,
)
from shared.adapters.kubernetes.native.reading import read_job, read_native_pod
from shared.adapters.kubernetes.nodes.following import Follower, collection
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.native import IndexedJob, NativePod
from shared.ports.native import JobChanged, NativeInterrupted, NativeNews, PodChanged, PodsListed

PODS: Final = "/api/v1/pods"
JOBS: Final = "/apis/batch/v1/jobs"
Tell = Callable[[NativeNews], None]


class KubernetesNativePods:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._connection = Connection(
            config=settings.config,
            context=settings.context,
            requests_at_once=settings.requests_at_once,
        )
        pods = collection(
            self._connection,
            PODS,
            what="native pods",
            pages=NativePodList,
            items=NativePodObject,
            query={"fieldSelector": f"spec.schedulerName={settings.scheduler_name}"},
        )
        jobs = collection(self._connection, JOBS, what="jobs", pages=JobList, items=JobObject)
        self._pods: Follower[NativePodObject, NativePod] = Follower(
            "native pods", pods, read_native_pod
        )
        self._jobs: Follower[JobObject, tuple[str, IndexedJob]] = Follower("jobs", jobs, _job)

    async def follow(self, tell: Tell) -> None:
        """Tell all news until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run(_TellingJobs(tell)))
            tasks.create_task(self._pods.run(_TellingPods(tell)))

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def _job(found: JobObject) -> tuple[str, IndexedJob] | None:
    job = read_job(found)
    return (found.metadata.uid, job) if job is not None else None


class _TellingPods:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def listed(self, items: Mapping[str, NativePod], version: int) -> None:
        del version
        self._tell(PodsListed(pods=items))

    def changed(self, key: str, item: NativePod | None, version: int) -> None:
        del version
        self._tell(PodChanged(key=key, pod=item))

    def interrupted(self, problem: str) -> None:
        self._tell(NativeInterrupted(problem=problem))


class _TellingJobs:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._uids: dict[str, str] = {}
        """By namespace and name."""

    def listed(self, items: Mapping[str, tuple[str, IndexedJob]], version: int) -> None:
        for key in self._uids.keys() - items.keys():
            self.changed(key, None, version)
        for key, item in items.items():
            self.changed(key, item, version)

    def changed(self, key: str, item: tuple[str, IndexedJob] | None, version: int) -> None:
        del version
        namespace = key.partition("/")[0]
        before = self._uids.pop(key, None)
        if before is not None and (item is None or item[0] != before):
            self._tell(JobChanged(namespace=namespace, uid=before, job=None))
        if item is not None:
            self._uids[key] = item[0]
            self._tell(JobChanged(namespace=namespace, uid=item[0], job=item[1]))

    def interrupted(self, problem: str) -> None:
        self._tell(NativeInterrupted(problem=problem))
