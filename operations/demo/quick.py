"""The short demo: 2,000 workloads of every kind through both doors, live counts, a report."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from operations import configuration
from operations.demo.display import Display
from operations.demo.doors import Load, submit
from operations.demo.load import Item, load
from operations.demo.organisation import documents_of
from operations.demo.site import (
    Site,
    find_site,
    operator_of,
    print_addresses,
    reported_fleet,
    team_keys,
)
from operations.replay.report import lines_of, report_of
from operations.replay.runner import FOLLOWED
from operations.replay.system import apply_documents, wait_until_read
from operations.replay.tracker import Tracker
from operations.topic_tail import TopicTail
from shared.core.model.units import GPU_MILLI
from shared.events.envelope import workload_id
from shared.events.grants import OPERATOR

SHOW_SECONDS_MAX: Final = 25.0
"""After that the report is given, whatever still runs; the system stays up."""
RUN_BYTES: Final = 2


async def quick() -> int:
    """Run it on the local system; 0 when nothing was lost or doubled."""
    addresses = configuration.find(role=OPERATOR)
    site = find_site()
    run = f"d{secrets.token_hex(RUN_BYTES)}"
    async with operator_of(site) as operator:
        print("Waiting for the fleet to report itself ...", flush=True)
        fleet = await reported_fleet(operator)
        print(f"{fleet.total_gpu_milli // 1000:,} GPUs. Applying teams, queues and quotas ...")
        await apply_documents(operator, documents_of(fleet))
        keys = await team_keys(operator, site)
        await wait_until_read(addresses.kafka, addresses.prefix, addresses.database)
        items = load(run)
        tracker = Tracker(workload_id(item.team, item.submission.key) for item in items)
        topics = [topic.name for topic in FOLLOWED]
        print(f"Submitting {len(items):,} workloads through Kafka and HTTP ...", flush=True)
        async with TopicTail(addresses.kafka, addresses.prefix, topics) as tail:
            work = Load(
                addresses=addresses,
                gateway=operator.address,
                keys=keys,
                items=items,
                tracker=tracker,
            )
            refused, peak = await _show(work, tail, fleet.total_gpu_milli)
    report = report_of(tracker, fleet.total_gpu_milli)
    del report["allocated_percent"], report["workloads_per_second"]  # of the end, and of waits
    report["gpus_used_at_most"] = peak // GPU_MILLI
    _print(report, refused)
    _invite(site, tracker, items)
    return 1 if report["lost"] or report["duplicated"] else 0


async def _show(work: Load, tail: TopicTail, total_gpu_milli: int) -> tuple[list[str], int]:
    """Send and follow everything: what HTTP refused at the door, and most milli-GPU in use."""
    started = time.monotonic()
    with Display(work.tracker, total_gpu_milli) as display:
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(submit(work))
            async for batch in tail.batches():
                for received, at_ms in batch:
                    work.tracker.take(received, at_ms)
                display.show()
                elapsed = time.monotonic() - started
                if sender.done() and (elapsed > SHOW_SECONDS_MAX or _all_ended(work.tracker)):
                    break
    return sender.result(), display.peak_gpu_milli


def _all_ended(tracker: Tracker) -> bool:
    return all(fate.ended or fate.rejected for fate in tracker.fates.values())


def _print(report: dict[str, Any], refused: Sequence[str]) -> None:
    print("\nReport")
    for line in lines_of(report):
        print(f"  {line}")
    if refused:
        print("\nRefused at the door, for example")
        for text, count in Counter(refused).most_common(3):
            print(f"  {count:>3} x {text}")


def _invite(site: Site, tracker: Tracker, items: Sequence[Item]) -> None:
    print_addresses(site)
    print("\nTry next:")
    for command in _next_commands(tracker, items):
        print(f"  {command}")


def _next_commands(tracker: Tracker, items: Sequence[Item]) -> list[str]:
    waiting = [
        item.submission.spec.name
        for item in items
        if (fate := tracker.fates[workload_id(item.team, item.submission.key)]).reason
        and not fate.placed
        and not fate.ended
    ]
    rejected = [item.submission.spec.name for item in items if item.recipe == "wrong-gang"]
    chosen = (waiting or rejected)[0]
    return [
        "source .venv/bin/activate",
        "muster queue -w",
        f"muster why {chosen}",
        "muster quota",
        "muster nodes -o wide | head",
        "muster-ops check",
    ]
