"""From a kill -9 of monitoring to its first whole scrape, and from a fact to its metric.

A cost ledger of a million attempts, and work that holds GPUs in its journal. What is counted as
held goes on with the clock: the counters of GPU-seconds grow by all GPUs held times the time
between two scrapes, which is known to the time that a scrape takes; what is less is lost. Then
facts are published one at a time, and /metrics is asked until it shows each.
Run: `make bench-monitoring-restart`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from deploy.local.kafka import LocalKafka
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import TOPICS, Topic
from shared.events.workloads import Wire
from shared.ports.kafka_access import KafkaAccess
from shared.runtime.settings import Settings
from tests.benchmarks.options import machine
from tests.benchmarks.servers import own_servers
from tests.fixtures.servers import Database
from tests.support.agents import MonitoringProcess, until
from tests.support.gateway import publish_facts
from tests.unit.monitoring import builders as b

TEAMS: Final = 200
NODE_GPUS: Final = 8
SECONDS: Final = "muster_team_gpu_seconds_total"
LATE: Final = 'muster_workloads{state="queued",team="team-0"}'
LEDGER: Final = """
INSERT INTO monitoring.cost_interval (workload_id, attempt, resizes, team, queue, flavor,
    gpu_milli, started_at_ms, ended_at_ms, epoch)
SELECT 'old-' || n, 1, 0, 'team-' || n % {teams}, 'queue', 'h100', 1000,
    {at_ms} - n::bigint * 2592, {at_ms} - n::bigint * 2592 + 3600000, 0
    FROM generate_series(1, {count}) n
"""


def facts(running: int, at_ms: int) -> Iterator[tuple[Topic, Wire]]:
    """Eight GPUs a node, each held by work of its own that runs and is measured."""
    for number in range(running // NODE_GPUS):
        node = f"n{number}"
        yield _with_topic(b.a_node(node, gpus=NODE_GPUS))
    for number in range(running):
        name, team = f"w{number}", f"team-{number % TEAMS}"
        yield _with_topic(b.queued(name, team))
        yield _with_topic(b.placed(2, name, team, at_ms=at_ms, node=f"n{number // NODE_GPUS}"))
    for number in range(running // NODE_GPUS):
        yield _with_topic(b.usage(*[50] * NODE_GPUS, node=f"n{number}", at_ms=at_ms))


def _with_topic(fact: Wire) -> tuple[Topic, Wire]:
    return b.TOPIC_OF[type(fact)], fact


def restarted(service: MonitoringProcess, running: int) -> tuple[float, float]:
    """Kill it once: seconds to the scrape that has every team, and GPU-seconds that it lacks."""
    before, told = service.metric(SECONDS), time.monotonic()
    killed = time.monotonic()
    service.end(signal.SIGKILL)
    service.start()
    until(lambda: len(service.metric(SECONDS)) >= len(before), "it does not come", 120)
    waited, asked = time.monotonic() - killed, time.monotonic()
    after = service.metric(SECONDS)
    grown = sum(after.values()) - sum(before.values())
    return waited, max(running * (asked - told) - grown, 0.0)


async def shown(service: MonitoringProcess, settings: Settings, number: int) -> float:
    """Seconds from a fact on the log to a scrape that has it."""
    fact, began = _with_topic(b.queued(f"late-{number}", "team-0")), time.monotonic()
    await publish_facts(settings, [fact], source=f"late-{number}", at_ms=_now_ms())

    def is_shown() -> bool:
        return sum(service.metric(LATE).values()) > number

    await asyncio.to_thread(until, is_shown, "it does not come", 60)
    return time.monotonic() - began


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def run(kafka: LocalKafka, database: Database, options: argparse.Namespace) -> Any:
    """Fill the tables and the journal, and kill it."""
    address = f"127.0.0.1:{kafka.port}"
    at_ms = _now_ms()
    database.execute(LEDGER.format(count=options.attempts, teams=TEAMS, at_ms=at_ms))
    settings = Settings(
        kafka_bootstrap=address, database_url=database.url("monitoring"), topic_prefix="bench"
    )
    await create_topics(KafkaAccess(bootstrap=address), "bench", TOPICS)
    made = list(facts(options.running, at_ms))
    for begin in range(0, len(made), 2_000):
        some = made[begin : begin + 2_000]
        await publish_facts(settings, some, source=f"s{begin}", at_ms=at_ms)
    service = MonitoringProcess(address, database, "bench")
    service.start()
    try:
        held = "SELECT count(*) FROM monitoring.cost_interval WHERE ended_at_ms IS NULL"
        await asyncio.to_thread(
            until, lambda: int(database.execute(held)) == options.running, "facts are read", 300
        )
        lives = [
            await asyncio.to_thread(restarted, service, options.running)
            for _ in range(options.times)
        ]
        looks = [await shown(service, settings, number) for number in range(options.facts)]
    finally:
        service.end(signal.SIGKILL)
    waits = [waited for waited, _ in lives]
    return {
        "seconds": round(median(waits), 2),
        "longest_seconds": round(max(waits), 2),
        "lost_gpu_seconds": round(max(lost for _, lost in lives), 3),
        "fact_to_metric_seconds": round(median(looks), 2),
        "longest_fact_to_metric_seconds": round(max(looks), 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """On servers of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=1_000_000, help="in the cost ledger")
    parser.add_argument("--running", type=int, default=6_248, help="workloads of one GPU")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--facts", type=int, default=30)
    options = parser.parse_args()
    with own_servers() as (_, broker, database):
        found = asyncio.run(run(broker, database, options))
    asked = {"attempts": options.attempts, "running": options.running}
    print(json.dumps(asked | found | machine(), indent=1))


if __name__ == "__main__":
    main()
