"""What a fault is, and how all of them are gone through while a receiver of alerts listens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.observe.live import Live
from tests.support.system import Stage
from tests.support.webhooks import Receiver

SECONDS_MAX: Final = 90
"""So long an alert may take until it is told, or told to be over."""


@dataclass(kw_only=True)
class Scene:
    """A running system, and which alerts were told of in it."""

    live: Live
    stage: Stage
    hook: Receiver
    """What the destination of notifications leads to."""
    fired: set[str] = field(default_factory=set)
    """Told while their fault lasted."""
    resolved: set[str] = field(default_factory=set)
    """Told to be over after the end of their fault."""
    fired_before: set[str] = field(default_factory=set)
    """Pending or firing before the first fault began."""

    async def told(self, alerts: frozenset[str], status: str, since: int) -> set[str]:
        """Those of the alerts that are told with this status, from a place of the record on."""
        deadline = time.monotonic() + SECONDS_MAX
        found: set[str] = set()
        while found != alerts and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
            found = {
                one["labels"]["alertname"]
                for one in self.live.told[since:]
                if one["status"] == status and one["labels"]["alertname"] in alerts
            }
        return found


During = Callable[[Scene], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`during` begins it, and ends it when it is left."""

    alerts: frozenset[str]
    during: During
    alone: bool
    """Whether it hits so much that others are not told apart from it."""


FAULTS: Final[list[Fault]] = []


def raises(
    *alerts: str, alone: bool = False
) -> Callable[[Callable[[Scene], AsyncIterator[None]]], During]:
    """Register a fault: a generator that begins it, yields once, and ends it."""

    def register(steps: Callable[[Scene], AsyncIterator[None]]) -> During:
        during = asynccontextmanager(steps)
        FAULTS.append(Fault(alerts=frozenset(alerts), during=during, alone=alone))
        return during

    return register


async def run(scene: Scene) -> None:
    """All faults: first side by side those that do not hide each other, then the others."""
    await asyncio.gather(*(_prove(scene, one) for one in FAULTS if not one.alone))
    for one in FAULTS:
        if one.alone:
            await _prove(scene, one)


async def _prove(scene: Scene, fault: Fault) -> None:
    began, since = time.monotonic(), len(scene.live.told)
    async with fault.during(scene):
        fired = await scene.told(fault.alerts, "firing", since)
        lasted, since = time.monotonic() - began, len(scene.live.told)
    over = await scene.told(fault.alerts, "resolved", since)
    scene.fired |= fired
    scene.resolved |= over
    print(f"{lasted:5.1f} s, over after {time.monotonic() - began:5.1f} s: {sorted(fired)}")
