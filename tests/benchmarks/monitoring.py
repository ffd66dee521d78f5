"""What monitoring costs at scale: the look for needed nodes, and a scrape beside a running loop.

`needed_ms`: how long the look for needed nodes holds the event loop (its CPU), by kind of gang.
`scrape_p99_ms`: all gauges as text; `loop_gap_ms`: the longest time for which the event loop did
not run meanwhile, beside readings of use by all nodes in ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from services.monitoring.gauges import Gauges
from services.monitoring.handler import TEAMS_MAX
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory
from services.monitoring.needed import START_MS, NeededNodes
from shared.adapters.clock import SystemClock
from tests.support.crowded_fleet import NODE_GPUS, NOW_MS, crowded
from tests.support.protocol import a_message

TICK_SECONDS: Final = 0.005
LOOKS: Final = 5
PAUSE_SECONDS: Final = 0.2
MESSAGE: Final = replace(a_message(0), logged_ms=NOW_MS)
"""Any, of that time."""


def look_ms(memory: MonitoringMemory) -> float:
    """The median of some looks for needed nodes."""
    found = []
    for _ in range(LOOKS):
        needed = NeededNodes(memory, 0, START_MS, {})
        began = time.thread_time()
        needed.told([MESSAGE])
        found.append((time.thread_time() - began) * 1_000)
    return sorted(found)[LOOKS // 2]


async def scraped(memory: MonitoringMemory, scrapes: int) -> dict[str, float]:
    """So many scrapes in the thread of the health server, while the loop counts its own gaps."""
    registry = CollectorRegistry()
    registry.register(Gauges(lambda: memory, SystemClock(), Capped(TEAMS_MAX)))
    gaps: list[float] = []
    ticking = asyncio.create_task(_tick(gaps))
    took = []
    for _ in range(scrapes):
        took.append(await asyncio.to_thread(_milliseconds, lambda: generate_latest(registry)))
        await asyncio.sleep(PAUSE_SECONDS)
    ticking.cancel()
    took.sort()
    return {
        "scrape_p50_ms": took[scrapes // 2],
        "scrape_p99_ms": took[scrapes * 99 // 100],
        "loop_gap_p99_ms": sorted(gaps)[len(gaps) * 99 // 100],
        "loop_gap_ms": max(gaps),
    }


async def _tick(gaps: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(TICK_SECONDS)
        gaps.append((time.monotonic() - began - TICK_SECONDS) * 1_000)


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    """In this process alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--teams", type=int, default=200)
    parser.add_argument("--gangs", type=int, default=20_000)
    parser.add_argument("--scrapes", type=int, default=100)
    options = parser.parse_args()
    nodes = options.gpus // NODE_GPUS
    anywhere, near = (
        crowded(nodes=nodes, gangs=options.gangs, teams=options.teams, near=near)
        for near in (False, True)
    )
    gc.freeze()
    found = {
        "needed_ms, gangs anywhere": round(look_ms(anywhere), 1),
        "needed_ms, gangs in racks": round(look_ms(near), 1),
        **asyncio.run(scraped(anywhere, options.scrapes)),
    }
    print(json.dumps(found | {"at": datetime.now(UTC).isoformat(timespec="seconds")}))


if __name__ == "__main__":
    main()
