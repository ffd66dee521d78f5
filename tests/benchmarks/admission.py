"""Admission at the shapes of Kueue's in-tree test, through every service or the core alone.

Two forms of arrival. `burst`: everything waits in Kafka while admission is stopped by SIGSTOP,
and the clock runs from SIGCONT; decided is who was placed, or was told a reason for waiting.
`paced`: each class of a queue is created at Kueue's intervals, and admission is timed from there.
All times are the broker's, after the commit. Pods run on the simulated cluster; utilisation is
useful: the run time asked for over what the quotas could have run in the time that it took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.adapters.kafka.client import options as client_options
from shared.events.envelope import workload_id
from shared.events.grants import READER
from shared.events.topics import QUOTA_FACTS, WORKLOAD_FACTS
from shared.ports.store import OutboxRow
from tests.benchmarks import admission_core
from tests.benchmarks.admission_shapes import (
    SHAPES,
    TIME_SCALE,
    Arrival,
    Shape,
    arrivals,
    documents,
    spec_of,
)
from tests.benchmarks.options import machine
from tests.benchmarks.pipeline import processes
from tests.support.costs import cpu_seconds
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.work import fleet, submission_row

NODES: Final = 200
"""25,600 CPUs: devices never decide here."""
TICK_SECONDS: Final = 0.02
TOPICS: Final = (QUOTA_FACTS, WORKLOAD_FACTS)
FOLLOWED: Final = tuple(TopicPartition(one.on_broker("muster"), 0) for one in TOPICS)
DECIDED: Final = {b"muster.workload.placed.v1", b"muster.quota.refused.v1"} | {
    b"muster.placement.refused.v1"
}
KUEUE: Final = {
    "baseline": {"large": 27, "medium": 92, "small": 231, "workloads_per_second": 38.3},
    "large-scale": {"large": 105.6, "medium": 256.4, "small": 700.4, "workloads_per_second": 42.4},
}
"""Mean seconds to admission. Baseline: run unmodified on a machine like this one; large-scale: as
published in its repository."""


@dataclass(slots=True)
class Fate:
    """Broker's times of what became of one workload, Unix milliseconds; 0: not yet."""

    work: str
    created_ms: int = 0
    times: dict[bytes, int] = field(default_factory=dict)

    @property
    def decided_ms(self) -> int:
        """The first decision about it."""
        return min((at for kind, at in self.times.items() if kind in DECIDED), default=0)

    @property
    def placed_ms(self) -> int:
        """When it was placed."""
        return self.times.get(b"muster.workload.placed.v1", 0)


@dataclass(slots=True)
class Spent:
    """CPU seconds of every process over time: deciding is one part, running another."""

    samples: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    async def watch(self, stage: Stage) -> None:
        """Look every second until cancelled."""
        while True:
            await self.look(stage)
            await asyncio.sleep(1.0)

    async def look(self, stage: Stage) -> None:
        """One sample."""
        groups = await processes(stage)
        self.samples.append((now_ms(), {name: cpu_seconds(one) for name, one in groups.items()}))

    def each(self, workloads: int, until_ms: int | None = None) -> dict[str, int]:
        """Microseconds for each workload up to a moment, by process."""
        _, first = self.samples[0]
        fitting = (used for at_ms, used in self.samples if at_ms >= (until_ms or 0))
        last = next(fitting, self.samples[-1][1]) if until_ms else self.samples[-1][1]
        return {
            name: round((value - first.get(name, 0)) * 1e6 / workloads)
            for name, value in sorted(last.items())
        }


async def burst(stage: Stage, waiting: Sequence[Arrival], fates: dict[str, Fate]) -> int:
    """Let everything wait in the log, then go; the start in Unix milliseconds."""
    stage.system.send("admission", signal.SIGSTOP)
    await stage.publish(_row(number, one, "burst") for number, one in enumerate(waiting))
    start_ms = now_ms()
    stage.system.send("admission", signal.SIGCONT)
    for one in fates.values():
        one.created_ms = start_ms
    return start_ms


async def paced(stage: Stage, waiting: Sequence[Arrival], fates: dict[str, Fate]) -> int:
    """Create each at its time; the start in Unix milliseconds."""
    start_ms, sent = now_ms(), 0
    for fate, one in zip(fates.values(), waiting, strict=True):
        fate.created_ms = start_ms + one.at_ms
    while sent < len(waiting):
        due = sent
        while due < len(waiting) and waiting[due].at_ms <= now_ms() - start_ms:
            due += 1
        await stage.publish(_row(n, waiting[n], "paced") for n in range(sent, due))
        sent = due
        await asyncio.sleep(TICK_SECONDS)
    return start_ms


FORMS: Final = {"burst": burst, "paced": paced}


def _key(arrival: Arrival, prefix: str) -> str:
    return f"{prefix}-{arrival.queue}-{arrival.work.name}-{arrival.number}"


def _row(number: int, one: Arrival, prefix: str) -> OutboxRow:
    return submission_row(number, spec_of(one), TEAM, _key(one, prefix), now_ms())


async def run(stage: Stage, shape: Shape, form: str) -> dict[str, Any]:
    """One form of arrival to its end; the figures."""
    waiting = arrivals(shape)
    fates = {workload_id(TEAM, _key(one, form)): Fate(one.work.name) for one in waiting}
    consumer = AIOKafkaConsumer(**client_options(stage.system.kafka.access(READER)))
    await consumer.start()
    try:
        consumer.assign(FOLLOWED)
        begin = await consumer.end_offsets(FOLLOWED)
        spent = Spent()
        watching = asyncio.create_task(spent.watch(stage))
        ended = "SELECT count(*) FROM gateway.workload WHERE state = 'succeeded'"
        known = await stage.rows.fetchval(ended)
        start_ms = await FORMS[form](stage, waiting, fates)
        await stage.until(ended, known + len(waiting), 500, every_seconds=1.0)
        await spent.look(stage)
        await read_fates(consumer, begin, fates)
    finally:
        watching.cancel()
        await consumer.stop()
    decided_ms = max(one.decided_ms for one in fates.values())
    return figures(shape, list(fates.values()), start_ms) | {
        "cpu_microseconds_per_workload": spent.each(len(waiting)),
        "cpu_microseconds_per_workload_until_decided": spent.each(len(waiting), decided_ms),
    }


async def read_fates(
    consumer: AIOKafkaConsumer, begin: dict[TopicPartition, int], fates: dict[str, Fate]
) -> None:
    """The log from where it was at the start: the first record of each type for each workload."""
    ends = await consumer.end_offsets(FOLLOWED)
    for place in FOLLOWED:
        consumer.seek(place, begin[place])
    for place in FOLLOWED:
        while await consumer.position(place) < ends[place]:
            await _take(consumer, fates)


async def _take(consumer: AIOKafkaConsumer, fates: dict[str, Fate]) -> None:
    for records in (await consumer.getmany(timeout_ms=200)).values():
        for record in records:
            headers = dict(record.headers)
            fate = fates.get(headers.get("ce_subject", b"").decode())
            if fate is not None:
                fate.times.setdefault(headers["ce_type"], record.timestamp)


def figures(shape: Shape, fates: Sequence[Fate], start_ms: int) -> dict[str, Any]:
    """What the times come to."""
    lost = sum(not (fate.decided_ms and fate.placed_ms) for fate in fates)
    assert not lost, f"{lost} workloads were never decided about or never placed"
    decided = sorted(fate.decided_ms - start_ms for fate in fates)
    end_ms = max(fate.times[b"muster.workload.succeeded.v1"] for fate in fates)
    return {
        "workloads": len(fates),
        "decided_seconds": decided[-1] / 1_000,
        "decided_per_second": round(len(fates) * 1_000 / decided[-1]),
        "ms_to_decision": _spread(sorted(one.decided_ms - one.created_ms for one in fates)),
        "seconds_to_the_last_end": (end_ms - start_ms) / 1_000,
        "ideal_seconds": shape.ideal_ms / 1_000,
        "useful_utilisation_percent": round(100 * shape.ideal_ms / (end_ms - start_ms), 1),
        "workloads_per_second": round(len(fates) * 1_000 / (end_ms - start_ms), 1),
        "told_to_wait_percent": round(
            100 * sum(fate.decided_ms < fate.placed_ms for fate in fates) / len(fates), 1
        ),
        "seconds_to_admission": _by_class(fates),
    }


def _by_class(fates: Sequence[Fate]) -> dict[str, dict[str, float]]:
    waits: dict[str, list[int]] = {}
    for fate in fates:
        waits.setdefault(fate.work, []).append(fate.placed_ms - fate.created_ms)
    return {
        name: {key: round(value / 1_000, 2) for key, value in _spread(sorted(each)).items()}
        for name, each in sorted(waits.items())
    }


def _spread(ordered: Sequence[int]) -> dict[str, float]:
    places = {"p50": len(ordered) // 2, "p99": int(len(ordered) * 0.99), "max": -1}
    found = {name: ordered[place] for name, place in places.items()}
    return {"mean": round(sum(ordered) / len(ordered), 1), **found}


async def through_services(shape: Shape, forms: Sequence[str]) -> dict[str, Any]:
    """All forms, each on a system of its own in a temporary folder."""
    result: dict[str, Any] = {}
    for form in forms:
        with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
            overrides = {
                "simulated-cluster": {
                    "MUSTER_CLUSTER_START_DELAY_SECONDS": "0",
                    "MUSTER_CLUSTER_SPEED": str(TIME_SCALE),
                }
            }
            system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
            stage = Stage(system)
            try:
                await stage.connect()
                for path, body in documents(shape, TEAM):
                    await stage.put(path, body)
                await stage.nodes(list(fleet(NODES)))
                result[form] = await run(stage, shape, form)
                print(form, json.dumps(result[form]), flush=True)
            finally:
                await stage.disconnect()
                await asyncio.to_thread(system.discard)
    return result


def main() -> None:
    """Measure what was asked for, print it and write JSON."""
    options = _options()
    result: dict[str, Any] = {"shapes": {}, **machine()}
    for name in options.shapes.split(","):
        begin = time.monotonic()
        shape = SHAPES[name].tenth() if options.short else SHAPES[name]
        found = {"core": admission_core.measure(shape), "kueue": KUEUE.get(name, {})}
        print(f"{name}: core alone {json.dumps(found['core'])}", flush=True)
        if not options.core:
            found |= asyncio.run(through_services(shape, options.forms.split(",")))
        result["shapes"][name] = found
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks admission --shapes baseline --forms burst",
    )
    parser.add_argument(
        "--shapes", default="baseline,large-scale", help=f"of {', '.join(SHAPES)}, by comma"
    )
    parser.add_argument("--forms", default="burst,paced", help="how the work arrives")
    parser.add_argument("--core", action="store_true", help="the quota core alone")
    parser.add_argument("--short", action="store_true", help="a tenth of the baseline")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.shapes = "baseline"
    return options


if __name__ == "__main__":
    main()
