"""Time of the placement service without broker and database: decide, assemble, build the SQL.

`python -m tests.benchmarks placement_service [--profile]` feeds nominations of openb's sizes with
5 % gangs, then their running facts, in units of 500, to the handler with a fleet in memory.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import time
from collections import defaultdict

from services.placement.handlers import PlacementHandler
from shared.adapters.postgres.unit_statement import build
from shared.core.model.nouns import Workload
from shared.events.envelope import Event, Received, event_id, workload_id
from shared.events.nodes import NodeInventoryReported
from shared.events.pods import PodsRunning
from shared.events.quotas import FlavorQuota, PermittedFlavor, QuotaChanged, WorkloadNominated
from shared.events.workloads import Wire
from shared.runtime.assemble import Counters, assemble
from tests.support.work import fleet, submissions

UNIT = 500


class Feed:
    """Messages with ids and offsets of their own, handled in units."""

    def __init__(self) -> None:
        self.handler = PlacementHandler()
        self.seconds: dict[str, float] = defaultdict(float)
        self._number = 0
        self._counters = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")

    def message(self, payload: Wire, subject: str) -> Received:
        self._number += 1
        event = Event(
            id=event_id(1_700_000_000_000 + self._number, str(self._number), "bench", 0),
            type="bench",
            source="bench",
            subject=subject,
            time_ms=1_700_000_000_000,
            key=subject,
            payload=payload,
        )
        return Received(event=event, topic="bench", partition=0, offset=self._number)

    def run(self, messages: list[Received]) -> None:
        for first in range(0, len(messages), UNIT):
            self._unit(messages[first : first + UNIT])

    def _unit(self, messages: list[Received]) -> None:
        times = [time.perf_counter()]
        outcome = self.handler.decide(messages, 1_700_000_000_000)
        times.append(time.perf_counter())
        unit = assemble("placement", self._counters, outcome, consumed=messages, dead=(), now_ms=1)
        self._counters = self._counters.after(unit)
        times.append(time.perf_counter())
        build(unit, "placement", "cell-0", 1, self._counters.next_seq).text()
        times.append(time.perf_counter())
        for name, start, end in zip(
            ("decide", "assemble", "build"), times[:-1], times[1:], strict=True
        ):
            self.seconds[name] += end - start


def measure(workloads: int, nodes: int, *, profile: bool) -> dict[str, float]:
    """Microseconds per workload by stage."""
    feed = Feed()
    quota = QuotaChanged(name="bench", kind="queue", flavors=(FlavorQuota(flavor="default"),))
    feed.run([feed.message(quota, "bench")])
    started = time.perf_counter()
    feed.run(
        [
            feed.message(NodeInventoryReported(node=one, generation=1), one.name)
            for one in fleet(nodes)
        ]
    )
    ready = time.perf_counter() - started
    nominations = [
        _nomination(feed, number, spec) for number, spec in enumerate(submissions(workloads, 1))
    ]
    running = [
        feed.message(
            PodsRunning(workload_id=one.event.subject, attempt=1, at_ms=1), one.event.subject
        )
        for one in nominations
    ]
    feed.seconds.clear()
    profiler = cProfile.Profile()
    if profile:
        profiler.enable()
    feed.run(nominations)
    feed.run(running)
    profiler.disable()
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    waiting = len(feed.handler.state.waiting)
    return {
        "nodes_ready_seconds": round(ready, 2),
        "placed": workloads - waiting,
        **{
            f"{name}_us": round(value * 1e6 / workloads, 1) for name, value in feed.seconds.items()
        },
    }


def _nomination(feed: Feed, number: int, spec) -> Received:
    workload = Workload(
        id=workload_id("bench", str(number)),
        team="bench",
        queue="bench",
        cell=0,
        priority=1,
        spec=spec,
        submitted_at_ms=1,
    )
    payload = WorkloadNominated(
        workload=workload,
        version=1,
        nomination=1,
        order_key=(-1, 1, number),
        flavors=(PermittedFlavor(flavor="default"),),
    )
    return feed.message(payload, workload.id)


def main() -> None:
    """Parse options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(json.dumps(measure(options.workloads, options.nodes, profile=options.profile)))


if __name__ == "__main__":
    main()
