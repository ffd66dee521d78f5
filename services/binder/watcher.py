"""Sees what the cluster does: a list of all pods, then a watch from there, and again.

The watch is never trusted for long: every 60 to 120 s, and at once after any error or lost answer,
all is listed again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random
from typing import Final

import structlog

from services.binder import metrics
from services.binder.gangs import Gangs
from services.binder.orphans import Orphans
from shared.ports.clock import Clock
from shared.ports.cluster import Pod, PodCluster, WatchEvent
from shared.ports.errors import ResourceVersionExpired, Transient

RELIST_SECONDS: Final = (60.0, 120.0)
"""A list of 10,000 pods costs the API server 0.6 s: several binders do not ask together."""
LIST_SECONDS_MAX: Final = 60.0
BACKOFF_SECONDS: Final = (0.1, 5.0)
SLICE: Final = 1_000

log = structlog.get_logger("binder")


class Watcher:
    """Tells gangs and orphans what was seen; lists are numbered in rounds from 1."""

    def __init__(self, cluster: PodCluster, clock: Clock, gangs: Gangs, orphans: Orphans) -> None:
        self._cluster = cluster
        self._clock = clock
        self._gangs = gangs
        self._orphans = orphans
        self._random = Random()
        self.round = 0
        self.wanted_round = 1
        """The first list that is enough for gangs that wait for one."""
        self._watching: asyncio.Timeout | None = None

    async def run(self) -> None:
        """List and watch; never ends."""
        low, high = BACKOFF_SECONDS
        backoff = low
        while True:
            self.round += 1
            try:
                async with asyncio.timeout(LIST_SECONDS_MAX):
                    pods, version = await self._cluster.list_pods()
                await self._listed(pods, version)
                backoff = low
                if self.round >= self.wanted_round:
                    await self._watch(version)
            except (Transient, ResourceVersionExpired, TimeoutError) as error:
                log.info("list again", error=str(error))
                await asyncio.sleep(backoff * (0.5 + self._random.random()))
                backoff = min(backoff * 2, high)

    def relist(self) -> None:
        """Ask for a list that begins after now, and end the watch for it."""
        self.wanted_round = self.round + 1
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.reschedule(asyncio.get_running_loop().time())

    async def _watch(self, version: int) -> None:
        """Take in events until it is time to list again."""
        try:
            async with (
                asyncio.timeout(self._random.uniform(*RELIST_SECONDS)) as self._watching,
                contextlib.aclosing(self._cluster.watch(version)) as batches,  # type: ignore[type-var]  # an async generator by every adapter
            ):
                async for events in batches:
                    self._seen(events)
        except TimeoutError:
            return
        finally:
            self._watching = None

    def _seen(self, events: Sequence[WatchEvent]) -> None:
        now_ms = self._clock.now_ms()
        by_key, look_at = self._gangs.by_key, self._gangs.look_at
        for event in events:
            pod = event.pod
            gang = by_key.get((pod.workload_id, pod.attempt))
            if gang is None:
                self._orphans.seen(pod, now_ms, gone=event.type == "DELETED")
            elif gang.observed(event.type, pod, now_ms):
                look_at(gang)
        self._gangs.wake.set()

    async def _listed(self, pods: Sequence[Pod], version: int) -> None:
        """Compare everything, in slices that leave room for the loop."""
        metrics.RELISTS.inc()
        now_ms, list_round = self._clock.now_ms(), self.round
        by_key, look_at = self._gangs.by_key, self._gangs.look_at
        uids = set()
        for index, pod in enumerate(pods):
            uids.add(pod.uid)
            gang = by_key.get((pod.workload_id, pod.attempt))
            if gang is None:
                self._orphans.seen(pod, now_ms, gone=False)
            elif gang.observed("MODIFIED", pod, now_ms):
                look_at(gang)
            if index % SLICE == 0:
                await asyncio.sleep(0)
        self._orphans.keep_only(uids)
        for index, gang in enumerate(list(by_key.values())):
            if gang.listed(uids, version, list_round, now_ms):
                look_at(gang)
            if index % SLICE == 0:
                await asyncio.sleep(0)
