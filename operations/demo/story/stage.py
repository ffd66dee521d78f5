"""What a scene acts on: the front doors of each team, the operator's, and what the log tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.client import AsyncClient
from operations.configuration import Addresses
from operations.demo.doors import Load, submit
from operations.demo.load import Item, Recipe
from operations.demo.site import Site
from operations.demo.story.narrator import Narrator
from operations.demo.story.work import items_of
from operations.replay.fleet import Fleet
from operations.replay.tracker import Fate, Tracker
from operations.topic_tail import TopicTail
from shared.core.model.units import GPU_MILLI
from shared.events.envelope import workload_id

Json = dict[str, Any]
LOOK_SECONDS: Final = 0.2
WAIT_SECONDS_MAX: Final = 60.0
SETTLE_SECONDS_MAX: Final = 120.0


class SceneFailed(Exception):  # noqa: N818  # says what happened
    """What a caption promises was not seen; the text says what was waited for."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """Connections of one run of the story; `tracker` follows everything that it submitted."""

    addresses: Addresses
    site: Site
    run: str
    fleet: Fleet
    keys: dict[str, str]
    operator: AsyncClient
    teams: dict[str, AsyncClient]
    tracker: Tracker
    narrator: Narrator
    items: list[Item] = field(default_factory=list)
    """All that was submitted so far."""

    def require(self, seen: bool, what: str) -> None:  # noqa: FBT001  # reads as an assertion
        """Raise SceneFailed unless `seen`."""
        if not seen:
            raise SceneFailed(f"not seen: {what}")

    async def follow(self, tail: TopicTail) -> None:
        """Take every event of the log until cancelled."""
        async for batch in tail.batches():
            for received, at_ms in batch:
                self.tracker.take(received, at_ms)

    async def submit(self, recipes: Sequence[Recipe]) -> list[Item]:
        """Send the work of `recipes` through both doors; returns when it is acknowledged."""
        items = items_of(self.run, recipes)
        self.items += items
        self.tracker.expect(identifier(item) for item in items)
        work = Load(
            addresses=self.addresses,
            gateway=self.operator.address,
            keys=self.keys,
            items=items,
            tracker=self.tracker,
        )
        await submit(work)
        return items

    def fates(self, items: Sequence[Item]) -> list[Fate]:
        """What is known of each."""
        return [self.tracker.fates[identifier(item)] for item in items]

    async def until_running(self, items: Sequence[Item]) -> float:
        """Seconds until all of them run; shows how many do."""
        fates = self.fates(items)

        async def all_run() -> bool:
            return all(fate.running for fate in fates)

        def counts() -> str:
            running = [fate for fate in fates if fate.running]
            gpus = sum(fate.gpu_milli for fate in running) // GPU_MILLI
            return f"{len(running):,} of {len(fates):,} run, on {gpus:,} GPUs"

        return await self.until("all of them run", all_run, counts, SETTLE_SECONDS_MAX)

    async def read_running(self, item: Item) -> Json:
        """The workload as it is read, once the read model knows that it runs."""

        async def known() -> bool:
            state: str = (await self.operator.get(identifier(item)))["state"]
            return state == "running"

        await self.until(f"{name_of(item)} is read as running", known, lambda: "it is read")
        return await self.operator.get(identifier(item))

    async def until(
        self,
        what: str,
        seen: Callable[[], Awaitable[bool]],
        counts: Callable[[], str],
        seconds_max: float = WAIT_SECONDS_MAX,
    ) -> float:
        """Seconds until `seen()`; `counts()` is shown meanwhile.

        Raises:
            SceneFailed: `what` was not seen within `seconds_max`.
        """
        started = time.monotonic()
        while not await seen():
            if time.monotonic() - started > seconds_max:
                raise SceneFailed(f"not seen within {seconds_max:.0f} s: {what} ({counts()})")
            self.narrator.progress(counts())
            await asyncio.sleep(LOOK_SECONDS)
        self.narrator.settle()
        return time.monotonic() - started


def identifier(item: Item) -> str:
    """The id that Muster gives it."""
    return workload_id(item.team, item.submission.key)


def name_of(item: Item) -> str:
    """The name by which `muster why NAME` finds it."""
    return str(item.submission.spec.name)
