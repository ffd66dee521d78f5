"""`ports.NativeSource` by an API server: pods that name Muster, and the objects of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.native.group_objects import GROUP_KINDS, GroupKind
from shared.adapters.kubernetes.native.objects import (
    GroupCustomObject,
    GroupCustomObjectList,
    JobList,
    JobObject,
    NativePodList,
    NativePodObject,
)
from shared.adapters.kubernetes.native.reading import read_job, read_native_pod
from shared.adapters.kubernetes.native.surroundings import TellingAll, quotas, volume_claims
from shared.adapters.kubernetes.nodes.following import Follower, collection
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.native import GroupObject, GroupSource, NativePod, key_of
from shared.ports.native import (
    GroupChanged,
    NativeHeard,
    NativeInterrupted,
    NativeNews,
    PodChanged,
    PodsListed,
    QuotasTold,
    VolumeClaimsTold,
)

PODS: Final = "/api/v1/pods"
JOBS: Final = "/apis/batch/v1/jobs"
Tell = Callable[[NativeNews], None]
GroupFollower = Follower[Any, tuple[str, GroupObject]]


class KubernetesNativePods:
    """See the module; the session is opened by the first request."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._connection = Connection(settings)
        pods = collection(
            self._connection,
            PODS,
            what="native pods",
            pages=NativePodList,
            items=NativePodObject,
            query={"fieldSelector": f"spec.schedulerName={settings.scheduler_name}"},
        )
        self._pods: Follower[NativePodObject, NativePod] = Follower(
            "native pods", pods, read_native_pod
        )
        self._quotas, self._claims = quotas(self._connection), volume_claims(self._connection)
        self._groups = (self._jobs(), *map(self._objects, GROUP_KINDS))

    def _jobs(self) -> GroupFollower:
        jobs = collection(self._connection, JOBS, what="jobs", pages=JobList, items=JobObject)
        return Follower("jobs", jobs, _job)

    def _objects(self, kind: GroupKind) -> GroupFollower:
        found = collection(
            self._connection,
            kind.path,
            what=kind.what,
            pages=GroupCustomObjectList,
            items=GroupCustomObject,
        )
        return Follower(kind.what, found, kind.read, optional=True)

    async def follow(self, tell: Tell) -> None:
        """Tell all news until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for one in self._groups:
                tasks.create_task(one.run(_TellingGroups(one.what, tell)))
            tasks.create_task(
                self._quotas.run(TellingAll(lambda all_: tell(QuotasTold(quotas=all_))))
            )
            tasks.create_task(
                self._claims.run(TellingAll(lambda all_: tell(VolumeClaimsTold(bound=all_))))
            )
            tasks.create_task(self._pods.run(_TellingPods(self._pods.what, tell)))

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def _job(found: JobObject) -> tuple[str, GroupObject] | None:
    job, metadata = read_job(found), found.metadata
    return (key_of(metadata.namespace, GroupSource.JOB, metadata.uid), job) if job else None


class _TellingKind:
    """Tells whether a kind is heard."""

    def __init__(self, kind: str, tell: Tell) -> None:
        self._kind = kind
        self._tell = tell

    def _heard(self) -> None:
        self._tell(NativeHeard(kind=self._kind))

    def interrupted(self, problem: str) -> None:
        self._tell(NativeInterrupted(kind=self._kind, problem=problem))


class _TellingPods(_TellingKind):
    def listed(self, items: Mapping[str, NativePod], version: int) -> None:
        del version
        self._tell(PodsListed(pods=items))
        self._heard()

    def changed(self, key: str, item: NativePod | None, version: int) -> None:
        del version
        self._tell(PodChanged(key=key, pod=item))


class _TellingGroups(_TellingKind):
    def __init__(self, kind: str, tell: Tell) -> None:
        super().__init__(kind, tell)
        self._groups: dict[str, str] = {}
        """The key of the group by namespace and name of the object."""

    def listed(self, items: Mapping[str, tuple[str, GroupObject]], version: int) -> None:
        for key in self._groups.keys() - items.keys():
            self.changed(key, None, version)
        for key, item in items.items():
            self.changed(key, item, version)
        self._heard()

    def changed(self, key: str, item: tuple[str, GroupObject] | None, version: int) -> None:
        del version
        before = self._groups.pop(key, None)
        if before is not None and (item is None or item[0] != before):
            self._tell(GroupChanged(key=before, told=None))
        if item is not None:
            self._groups[key] = item[0]
            self._tell(GroupChanged(key=item[0], told=item[1]))
