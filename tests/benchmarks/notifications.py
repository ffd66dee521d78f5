"""Time from a fact on the log to the webhook received, at a steady rate; p50 and p99.

The facts are of workloads that failed, the receiver answers at once, and a second receiver is down
all the time. Run: `python -m tests.benchmarks.notifications --rate 100 --seconds 30`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from datetime import UTC, datetime

from deploy.local.processes import free_port
from tests.benchmarks.servers import own_servers
from tests.support.webhooks import Notifications, Receiver, until


async def measured(service: Notifications, options: argparse.Namespace) -> dict[str, float]:
    """Milliseconds from before the fact is published until the request is read."""
    rate, seconds = options.rate, options.seconds
    receiver = Receiver()
    await receiver.start()
    await service.prepare()
    await service.apply("good", f"http://127.0.0.1:{receiver.port}/good")
    await service.apply("down", f"http://127.0.0.1:{free_port()}/down")
    service.start()
    await until(lambda: service.destinations() == 2, "documents are not read")
    begins: dict[str, float] = {}
    started = time.monotonic()
    for number in range(rate * seconds):
        await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
        begins[f"w{number}"] = time.time()
        await service.fail(f"w{number}")
    await until(lambda: len(receiver.of("/good")) == rate * seconds, "some do not come", 60)
    waits = sorted(
        1000 * (one.at_seconds - begins[one.workload_id])
        for one in receiver.taken
        if one.path == "/good"
    )
    await service.close()
    await receiver.stop()
    return {
        "events": len(waits),
        "p50_ms": waits[len(waits) // 2],
        "p99_ms": waits[len(waits) * 99 // 100],
        "longest_ms": waits[-1],
    }


def main() -> None:
    """On servers of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    with own_servers() as (folder, broker, database):
        secrets = folder / "secrets"
        secrets.mkdir()
        service = Notifications(f"127.0.0.1:{broker.port}", database, "bench", secrets)
        found = asyncio.run(measured(service, options))
    print(json.dumps(found | {"at": datetime.now(UTC).isoformat(timespec="seconds")}))


if __name__ == "__main__":
    main()
