"""One replay: prepare, send, follow until it is quiet, report."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from muster.client import AsyncClient
from operations.configuration import Addresses
from operations.replay.openb import Trace
from operations.replay.report import report_of
from operations.replay.submitting import Submission, by_http, by_kafka, ids_of, paced
from operations.replay.system import (
    FLEET_READERS,
    apply_organisation,
    report_nodes,
    wait_until_read,
)
from operations.replay.tracker import Tracker
from operations.topic_tail import TopicTail
from shared.events.topics import QUEUE_FACTS, QUOTA_FACTS, SUBMISSION_COMMANDS, WORKLOAD_FACTS

FOLLOWED: Final = (SUBMISSION_COMMANDS, QUEUE_FACTS, QUOTA_FACTS, WORKLOAD_FACTS)
QUIET_SECONDS: Final = 3.0
STUCK_SECONDS: Final = 60.0
PROGRESS_SECONDS: Final = 1.0
KEY_LABEL: Final = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How to replay. `run` goes into the idempotency keys: another run, other workloads."""

    team: str
    door: str
    per_second: float | None
    run: str = "1"


async def replay(
    addresses: Addresses, client: AsyncClient, trace: Trace, plan: Plan
) -> dict[str, Any]:
    """The report; `client` is an operator's."""
    _tell(f"reporting {len(trace.nodes)} nodes and applying the organisation")
    place = (addresses.kafka, addresses.prefix)
    now_ms = int(time.time() * 1000)  # noqa: TID251  # the time of a report from outside
    await report_nodes(*place, trace.nodes, now_ms)
    await wait_until_read(*place, addresses.database, FLEET_READERS)
    await apply_organisation(client, plan.team, trace)
    await wait_until_read(*place, addresses.database)
    submissions = [Submission(key=f"{plan.run}-{one.name}", spec=one) for one in trace.specs]
    tracker = Tracker(ids_of(plan.team, submissions))
    _tell(f"submitting {len(submissions)} workloads by {plan.door}")
    topics = [topic.name for topic in FOLLOWED]
    async with (
        TopicTail(addresses.kafka, addresses.prefix, topics) as tail,
        asyncio.TaskGroup() as group,
    ):
        due = paced(submissions, plan.per_second)
        sender = group.create_task(_submit(addresses, client, plan, due, tracker))
        await follow(tail, tracker, sender)
    return report_of(tracker, trace.capacity.gpu_milli)


async def _submit(
    addresses: Addresses,
    client: AsyncClient,
    plan: Plan,
    due: AsyncIterator[Submission],
    tracker: Tracker,
) -> None:
    if plan.door == "kafka":
        await by_kafka(addresses.kafka, addresses.prefix, plan.team, due, tracker.submitted)
        return
    created = await client.create_key(plan.team, "member", KEY_LABEL)
    async with AsyncClient(client.address, created["key"]) as member:
        await by_http(member, due)


async def follow(tail: TopicTail, tracker: Tracker, sender: asyncio.Task[None]) -> None:
    """Read on until everything is sent and settled and the log is quiet, or nothing moves."""
    changed_at = told_at = time.monotonic()
    async for batch in tail.batches():
        for received, at_ms in batch:
            tracker.take(received, at_ms)
        now = time.monotonic()
        changed_at = now if batch or not sender.done() else changed_at
        if now - told_at >= PROGRESS_SECONDS:
            told_at = now
            _tell(progress_of(tracker))
        settled = sender.done() and tracker.settled() == len(tracker.fates)
        if now - changed_at > (QUIET_SECONDS if settled else STUCK_SECONDS):
            return


def progress_of(tracker: Tracker) -> str:
    """One line of counts."""
    counts = tracker.counts()
    names = ("accepted", "rejected", "placed", "running", "waiting")
    return f"{len(tracker.fates)} submitted: " + ", ".join(f"{counts[n]} {n}" for n in names)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
