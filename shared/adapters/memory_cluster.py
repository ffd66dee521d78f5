"""The cluster in memory: the state machine of the simulated cluster without a process around it.

For tests: time moves when the clock does and `tick` is called, faults come from a seed. It passes
the same contract as the simulated cluster behind HTTP (tests/contract/test_cluster.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared.ports.clock import Clock
from shared.ports.cluster import Pod, PodOperation, PodResult, WatchEvent
from shared.ports.errors import ResourceVersionExpired, Transient
from shared.simulator.faults import Dice, Faults
from shared.simulator.pods import Pods, Timing
from shared.simulator.window import EventWindow

EVENTS_PER_BATCH = 1_000


class MemoryCluster:
    """`ports.Cluster` on `simulator.pods`; `pods` and `dice` are open to tests."""

    def __init__(
        self, clock: Clock, timing: Timing, *, seed: int = 0, window_events: int = 10_000
    ) -> None:
        self.dice = Dice(Faults(), f"{seed}")
        self.pods = Pods(timing, seed, kubelet=self.dice.kubelet)
        self._clock = clock
        self._window: EventWindow[WatchEvent] = EventWindow(0, window_events)
        self._news = asyncio.Event()
        self._breaks = 0

    async def apply(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """Try all; an answer that is lost is `UNKNOWN`, after the operation happened."""
        now_ms, dice = self._clock.now_ms(), self.dice
        self.pods.tick(now_ms)
        results = [
            dice.refusal() or dice.reply(self.pods.apply(one, now_ms)) for one in operations
        ]
        self._publish()
        await asyncio.sleep(0)
        return results

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods and the resource version to watch from."""
        self.tick()
        return self.pods.all_pods(), self.pods.version

    async def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after `resource_version`, in batches, until a fault breaks the watch."""
        position = resource_version
        breaks = self._breaks
        while True:
            events = self._window.since(position, EVENTS_PER_BATCH)
            if events is None:
                raise ResourceVersionExpired(f"version {position} is not in the window")
            if not events:
                await self._news.wait()
            else:
                position += len(events)
                yield events
            if breaks != self._breaks or self.dice.watch_dropped():
                raise Transient("the watch broke")

    def tick(self) -> None:
        """Let everything happen that is due by the clock, and tell the watches."""
        self.pods.tick(self._clock.now_ms())
        self._publish()

    def drop_watches(self) -> None:
        """Break every watch that is open."""
        self._breaks += 1
        self._announce()

    def _publish(self) -> None:
        changes = self.pods.take_changes()
        if changes:
            self._window.extend(WatchEvent(type=one.type, pod=one.pod) for one in changes)
            self._announce()

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
