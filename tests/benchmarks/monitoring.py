"""What monitoring costs at scale: the look for needed nodes, and a scrape beside a running loop.

`needed_ms`: how long the look for needed nodes holds the event loop (its CPU), by kind of gang.
`scrape_p99_ms`: all gauges as text, `scrape_cpu_ms` the CPU of one; `loop_gap_ms`: the longest
time for which the event loop did not run meanwhile, of which batches of reports are a part
(`batch_p99_ms`): every node reports its use each ten seconds, as agents do, and what arrives in
a fifth of a second is decoded and decided at once, as by the service.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any, Final

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from services.monitoring.gauges import Gauges
from services.monitoring.handler import TEAMS_MAX, MonitoringHandler
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory
from services.monitoring.needed import START_MS, NeededNodes
from shared.adapters.clock import SystemClock
from shared.events.codec import decode
from shared.events.nodes import GpuUsageReported
from shared.events.topics import USAGE_FACTS
from shared.ports.publisher import RawMessage
from tests.benchmarks.options import machine
from tests.support.crowded_fleet import NODE_GPUS, NOW_MS, crowded
from tests.support.protocol import a_message, a_record, an_event

TICK_SECONDS: Final = 0.005
LOOKS: Final = 5
PAUSE_SECONDS: Final = 0.2
REPORT_SECONDS: Final = 10
"""Between two reports of a node."""
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


def reports(memory: MonitoringMemory) -> Iterator[RawMessage]:
    """One of each node in turn, for ever, as they lie in the log."""
    rng = random.Random(1)
    records = []
    for number, name in enumerate(memory.nodes):
        fact = GpuUsageReported(
            node=name,
            at_ms=NOW_MS,
            utilization_percent=tuple(rng.randrange(101) for _ in range(NODE_GPUS)),
            memory_used_mib=tuple(rng.randrange(80_000) for _ in range(NODE_GPUS)),
            temperature_celsius=(60,) * NODE_GPUS,
            power_watts=(500,) * NODE_GPUS,
        )
        records.append(a_record(an_event(number, fact), number, topic=USAGE_FACTS.name))
    return cycle(records)


async def scraped(memory: MonitoringMemory, scrapes: int) -> dict[str, float]:
    """So many scrapes in the thread of the health server, while the loop counts its own gaps."""
    handler, registry = MonitoringHandler(), CollectorRegistry()
    handler._begin(memory)
    registry.register(Gauges(lambda: memory, SystemClock(), Capped(TEAMS_MAX)))
    gaps: list[float] = []
    batches: list[float] = []
    beside = [asyncio.create_task(_tick(gaps)), asyncio.create_task(_report(handler, batches))]
    took = []
    for _ in range(scrapes):
        took.append(await asyncio.to_thread(_milliseconds, lambda: generate_latest(registry)))
        await asyncio.sleep(PAUSE_SECONDS)
    for task in beside:
        task.cancel()
    walls = [wall for wall, _ in took]
    return {
        "scrape_p50_ms": _part(walls, 50),
        "scrape_p99_ms": _part(walls, 99),
        "scrape_cpu_ms": _part([cpu for _, cpu in took], 50),
        "batch_p99_ms": _part(batches, 99),
        "loop_gap_p99_ms": _part(gaps, 99),
        "loop_gap_ms": round(max(gaps), 1),
    }


async def _tick(gaps: list[float]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(TICK_SECONDS)
        gaps.append((time.monotonic() - began - TICK_SECONDS) * 1_000)


async def _report(handler: MonitoringHandler, batches: list[float]) -> None:
    """Reads, decides and forgets what would be written."""
    each, begun = reports(handler.memory), time.monotonic()
    together = int(len(handler.memory.nodes) / REPORT_SECONDS * handler.linger_seconds)
    while True:
        await asyncio.sleep(handler.linger_seconds)
        began = time.monotonic()
        logged_ms = NOW_MS + round((began - begun) * 1_000)
        messages = [
            decode(one.topic, 0, one.offset, one.headers, one.value, logged_ms=logged_ms)
            for one in islice(each, together)
        ]
        handler.decide(messages, logged_ms)
        batches.append((time.monotonic() - began) * 1_000)


def _milliseconds(call: Callable[[], object]) -> tuple[float, float]:
    """Of the clock, and of this thread's CPU."""
    began, cpu = time.perf_counter(), time.thread_time()
    call()
    return (time.perf_counter() - began) * 1_000, (time.thread_time() - cpu) * 1_000


def _part(values: Sequence[float], percent: int) -> float:
    return round(sorted(values)[len(values) * percent // 100], 1)


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
    load = round(os.getloadavg()[0], 1)
    found: dict[str, Any] = {
        "needed_ms, gangs anywhere": round(look_ms(anywhere), 1),
        "needed_ms, gangs in racks": round(look_ms(near), 1),
        **asyncio.run(scraped(anywhere, options.scrapes)),
        "load": load,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    print(json.dumps(found | machine()))


if __name__ == "__main__":
    main()
