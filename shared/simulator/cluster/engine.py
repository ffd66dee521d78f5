"""The heart of the simulated cluster: one batch at a time, durable before it is answered.

```
requests wait -> tick(now), apply all -> encode what changed -> commit (writer thread)
             -> answer the requests, publish the events to the watches
```
Neither an answer nor an event ever tells of something that a kill could undo. While a commit
runs, the next requests gather: the busier, the larger the batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec

from shared.ports.clock import Clock
from shared.ports.cluster import Pod, PodOperation, PodResult
from shared.simulator.cluster.store import PodRow, PodStore, StoreBatch
from shared.simulator.faults import Dice
from shared.simulator.pods import PodChange, Pods
from shared.simulator.window import EventWindow

OPERATIONS_WAITING_MAX: Final = 50_000
OPERATIONS_PER_BATCH_MAX: Final = 2_000
TICK_SECONDS_MIN: Final = 0.01
"""Timers that pass within this time share a commit."""

Action = Callable[[Pods, int], object]


class Overloaded(Exception):  # noqa: N818  # says what to do: come back later
    """Too many operations wait; answered 429."""


class Engine:
    """Owns the pods of the process. `run` must be running for anything to be answered."""

    def __init__(
        self, *, pods: Pods, store: PodStore, dice: Dice, clock: Clock, window_events: int
    ) -> None:
        self.dice = dice
        self.window: EventWindow[bytes] = EventWindow(pods.version, window_events)
        self._pods = pods
        self._store = store
        self._clock = clock
        self._waiting: list[tuple[Action, int, asyncio.Future[object]]] = []
        self._operations_waiting = 0
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
        self._writer = ThreadPoolExecutor(1, "store")
        self._encoder = msgspec.json.Encoder()
        self._unheard = pods.unheard()

    @property
    def pods(self) -> int:
        """Number of pods."""
        return len(self._pods)

    async def apply(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """Try all, in order; raises Overloaded."""
        dice = self.dice

        def act(pods: Pods, now_ms: int) -> list[PodResult]:
            return [dice.refusal() or dice.reply(pods.apply(one, now_ms)) for one in operations]

        return await self._submit(act, len(operations))  # type: ignore[return-value]  # act's own

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods as they are once everything before is durable, and their version."""
        return await self._submit(  # type: ignore[return-value]  # the lambda's own
            lambda pods, _: (pods.all_pods(), pods.version), 1
        )

    async def change(self, action: Action) -> object:
        """Do something to the pods, such as failing a node, and make it durable."""
        return await self._submit(action, 1)

    async def events(
        self, version: int, count_max: int, wait_seconds: float
    ) -> list[bytes] | None:
        """Events after `version`, waiting for the first; [] after the time, None when gone."""
        events = self.window.since(version, count_max)
        if events == []:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._news.wait()
            events = self.window.since(version, count_max)
        return events

    async def run(self) -> None:
        """Work until cancelled; an error of the store ends the process."""
        try:
            while True:
                await self._wait()
                await self._batch()
        finally:
            self._writer.shutdown()

    def poke(self) -> None:
        """Look at the clock again now."""
        self._wake.set()

    async def _submit(self, action: Action, operations: int) -> object:
        if self._operations_waiting > OPERATIONS_WAITING_MAX:
            raise Overloaded
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append((action, operations, answer))
        self._operations_waiting += operations
        self._wake.set()
        return await answer

    async def _wait(self) -> None:
        due_ms = self._pods.next_due_ms()
        seconds = None
        if due_ms is not None:
            seconds = max((due_ms - self._clock.now_ms()) / 1000, TICK_SECONDS_MIN)
        if not self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        self._wake.clear()

    async def _batch(self) -> None:
        now_ms = self._clock.now_ms()
        self._pods.tick(now_ms)
        answers = [(answer, act(self._pods, now_ms)) for act, answer in self._take()]
        changes = self._pods.take_changes()
        if changes or self._unheard != self._pods.unheard():
            batch, events = self._encode(changes)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._writer, self._store.write, batch)
            self.window.extend(events)
            self._news.set()
            self._news = asyncio.Event()
        for answer, result in answers:
            if not answer.done():
                answer.set_result(result)

    def _take(self) -> list[tuple[Action, asyncio.Future[object]]]:
        taken: list[tuple[Action, asyncio.Future[object]]] = []
        count = 0
        for action, operations, answer in self._waiting:
            if taken and count + operations > OPERATIONS_PER_BATCH_MAX:
                break
            count += operations
            taken.append((action, answer))
        del self._waiting[: len(taken)]
        self._operations_waiting -= count
        return taken

    def _encode(self, changes: Sequence[PodChange]) -> tuple[StoreBatch, list[bytes]]:
        """Each state is encoded once: the row's body is also the event's pod."""
        encode = self._encoder.encode
        rows: dict[int, PodRow] = {}
        removed: list[tuple[int]] = []
        events = []
        for kind, pod, record in changes:
            body = encode(pod)
            events.append(b'{"type":"%b","pod":%b}' % (kind.encode(), body))
            serial = record.serial
            if kind == "DELETED":
                rows.pop(serial, None)
                removed.append((serial,))
            else:
                rows[serial] = (
                    serial, body, record.start_at_ms, record.end_at_ms, record.gone_at_ms,
                )  # fmt: skip
        unheard = None
        if self._unheard != self._pods.unheard():
            self._unheard = self._pods.unheard()
            unheard = self._unheard
        batch = StoreBatch(
            list(rows.values()), removed, self._pods.version, self._pods.serial, unheard
        )
        return batch, events
