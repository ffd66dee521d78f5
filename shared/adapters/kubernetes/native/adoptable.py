"""The pods of others that wait to be bound, by their group: what the binder may adopt.

Followed from the first question on. A pod that is adopted carries our label, so the API server
itself takes it out of the selection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.naming import INSTANCE
from shared.adapters.kubernetes.native.objects import NativePodList, NativePodObject
from shared.adapters.kubernetes.native.reading import read_native_pod
from shared.adapters.kubernetes.nodes.following import Follower, collection
from shared.core.native import NativePod, PodsByGroup
from shared.ports.errors import Transient

PODS: Final = "/api/v1/pods"
UNBOUND: Final = "spec.schedulerName={},spec.nodeName="
READY_SECONDS_MAX: Final = 10.0


class AdoptablePods:
    """See the module; `close` ends the following, the next question begins it anew."""

    def __init__(self, connection: Connection, scheduler_name: str) -> None:
        self._connection = connection
        self._selector = UNBOUND.format(scheduler_name)
        self._task: asyncio.Task[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._listed = asyncio.Event()
        self._problem = ""
        self._pods = PodsByGroup()
        self._ranked: dict[str, list[NativePod]] = {}
        """Waiting pods in order of rank, of groups that were asked for since they changed."""

    async def member(self, group: str, rank: int, size: int, devices: int) -> NativePod | int:
        """The pod of a rank of a group that is whole; else how many of `size` are there.

        One that asks for another number than `devices` is of a group that changed since:
        none is there.

        Members are ordered by their index, then by name; an index need not be a rank (JobSet,
        roles of Kubeflow). O(1); after a change of the group O(size log size).

        Raises:
            Transient: pods are not listed yet.
        """
        await self._ready()
        ranked = self._ranked.get(group)
        if ranked is None:
            members = self._pods.members(group)
            ranked = self._ranked[group] = [one for one in members if one.waits]
        if len(ranked) < size:
            return len(ranked)
        found = ranked[rank]
        return found if found.device_count == devices else 0

    async def _ready(self) -> None:
        if self._task is None or self._task.done():
            self._begin()
            self._task = asyncio.create_task(self._follow(), name="adoptable-pods")
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await self._listed.wait()
        except TimeoutError as error:
            raise Transient(self._problem or "native pods are not listed yet") from error

    async def _follow(self) -> None:
        pods = collection(
            self._connection,
            PODS,
            what="native pods",
            pages=NativePodList,
            items=NativePodObject,
            query={"fieldSelector": self._selector, "labelSelector": f"!{INSTANCE}"},
        )
        follower: Follower[NativePodObject, NativePod] = Follower(
            "native pods", pods, read_native_pod
        )
        await follower.run(self)

    async def close(self) -> None:
        """Follow no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # ── what the follower tells ──

    def listed(self, items: Mapping[str, NativePod], version: int) -> None:
        """All of them."""
        del version
        self._pods, self._ranked = PodsByGroup(), {}
        for key, pod in items.items():
            self._pods.put(key, pod)
        self._listed.set()

    def changed(self, key: str, item: NativePod | None, version: int) -> None:
        """One is new, different or gone."""
        del version
        for group in self._pods.put(key, item):
            self._ranked.pop(group, None)

    def interrupted(self, problem: str) -> None:
        """Nothing is heard; what is known stays, as every adoption has its uid as a condition."""
        self._problem = problem
