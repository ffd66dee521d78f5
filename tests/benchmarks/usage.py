"""How long `muster usage` takes over a month of many attempts, by everything it sums up.

A gateway on servers of its own, with rows as the projection leaves them: 200 teams, 600 queues,
four flavors at two prices, work that is evicted and begins again. Run: `make bench-usage`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from deploy.local.kafka import LocalKafka
from tests.benchmarks.options import machine
from tests.benchmarks.servers import own_servers
from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, running_gateway

ATTEMPTS: Final = 1_000_000
MONTH: Final = ("2026-11-01", "2026-12-01")
BY: Final = (
    "team",
    "queue",
    "namespace",
    "flavor",
    "purchase",
    "day",
    "workload",
    "label:project",
)
# Every third workload has two attempts; rows come in the order in which work was submitted.
ROWS: Final = """
INSERT INTO gateway.gpu_usage (day, workload_id, attempt, resizes, team, queue, namespace,
    flavor, name, labels, used, unused, unmeasured, price_microdollars_per_gpu_hour, ended, at_ms,
    purchase)
SELECT 20758 + n * 30 / {count}, md5((n * 3 / 4)::text)::uuid::text, 1 + (n % 4 = 1)::int, 0,
    'team-' || t, 'queue-' || t || '-' || n % 3, 'ns-' || t, 'flavor-' || n % 4,
    'train-' || n % 97, jsonb_build_object('project', 'p' || n % 500), 1000 * (n % 3600007),
    500 * (n % 1800001), n % 1009, 1000000 + 500000 * (n % 2), true, 0, 'on-demand'
FROM (SELECT n, n * 3 / 4 % 200 AS t FROM generate_series(0, {count} - 1) n) made;
"""


def ask(gateway: Gateway, words: Sequence[str]) -> float:
    """`muster WORDS` as an operator calls it; for how many seconds."""
    program = [str(Path(sys.executable).with_name("muster")), *words]
    key = {"MUSTER_ADDRESS": gateway.address, "MUSTER_KEY": gateway.operator_key}
    started = time.perf_counter()
    subprocess.run(program, env=os.environ | key, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


async def measured(gateway: Gateway, times: int) -> dict[str, float]:
    """Seconds of each question; the middle one of several."""
    since, until = MONTH
    days = ("--since", since, "--until", until)
    asked: dict[str, tuple[str, ...]] = {by: ("usage", "--by", by, *days) for by in BY}
    asked["workload, one team"] = (*asked["workload"], "-t", "team-7")
    asked["report"] = ("report", "--week", "2026-11-16")
    return {
        name: round(
            median([await asyncio.to_thread(ask, gateway, words) for _ in range(times)]), 2
        )
        for name, words in asked.items()
    }


async def run(kafka: LocalKafka, database: Database, options: argparse.Namespace) -> Any:
    """Fill the table, and ask."""
    database.execute(ROWS.format(count=options.attempts))
    database.execute("VACUUM ANALYZE gateway.gpu_usage")
    address = f"127.0.0.1:{kafka.port}"
    async with running_gateway(address, database.url("gateway"), "bench") as gateway:
        return await measured(gateway, options.times)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    parser.add_argument("--times", type=int, default=3, help="of each question")
    options = parser.parse_args(arguments)
    with own_servers() as (_, broker, database):
        found = asyncio.run(run(broker, database, options))
    print(json.dumps({"attempts": options.attempts, "seconds": found, **machine()}, indent=1))


if __name__ == "__main__":
    main()
