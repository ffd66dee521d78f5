"""Sends workloads through a front door, at a rate or as fast as it goes.

Both doors carry the same idempotency keys, so the ids are known before anything is sent, and a
replay that is started again gives nothing twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.client import AsyncClient
from shared.adapters.kafka.client import options, start
from shared.core.model.nouns import WorkloadSpec
from shared.events.codec import encode_payload
from shared.events.envelope import workload_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import team_submissions
from shared.events.workloads import SubmitWorkload
from shared.ports.kafka_access import KafkaAccess

HTTP_BATCH: Final = 250
HTTP_BATCHES_IN_FLIGHT: Final = 4
KAFKA_IN_FLIGHT: Final = 2_000
Submitted = Callable[[str, int], None]
"""Told (workload id, time in ms) when the log has a submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A spec under the idempotency key by which it is known."""

    key: str
    spec: WorkloadSpec


def ids_of(team: str, submissions: Sequence[Submission]) -> list[str]:
    """The ids that Muster will give them."""
    return [workload_id(team, one.key) for one in submissions]


async def paced(
    submissions: Sequence[Submission], per_second: float | None
) -> AsyncIterator[Submission]:
    """Each at its time; all at once without a rate."""
    started = time.monotonic()
    for index, one in enumerate(submissions):
        if per_second:
            early = started + index / per_second - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
        yield one


async def by_kafka(
    access: KafkaAccess,
    prefix: str,
    team: str,
    submissions: AsyncIterator[Submission],
    submitted: Submitted,
) -> None:
    """On the team's own topic; every record is acknowledged when it returns."""
    from aiokafka import AIOKafkaProducer

    topic = team_submissions(team).on_broker(prefix)
    producer = AIOKafkaProducer(
        **options(access), acks="all", enable_idempotence=True, linger_ms=5
    )
    try:
        await start(producer, access)
        flight: list[Any] = []
        async for one in submissions:
            value = encode_payload(SubmitWorkload(spec=one.spec, door="kafka"))
            sent = await producer.send(topic, value, partition=0, headers=headers_of(one.key))
            flight.append((workload_id(team, one.key), sent))
            if len(flight) >= KAFKA_IN_FLIGHT:
                await _land(flight, submitted)
        await _land(flight, submitted)
    finally:
        await producer.stop()


def headers_of(key: str) -> list[tuple[str, bytes]]:
    """What a team must put on a submission: its CloudEvents id is the idempotency key."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return [
        ("ce_specversion", b"1.0"),
        ("content-type", b"application/json"),
        ("ce_id", key.encode()),
        ("ce_type", NAME_BY_TYPE[SubmitWorkload].encode()),
        ("ce_source", b"muster-ops"),
        ("ce_time", moment.encode()),
    ]


async def _land(flight: list[Any], submitted: Submitted) -> None:
    for identifier, sent in flight:
        metadata = await sent
        submitted(identifier, metadata.timestamp)
    flight.clear()


async def by_http(client: AsyncClient, submissions: AsyncIterator[Submission]) -> None:
    """In batches; raises the errors of the client."""
    slots = asyncio.Semaphore(HTTP_BATCHES_IN_FLIGHT)
    async with asyncio.TaskGroup() as group:
        batch: list[Submission] = []
        begun = time.monotonic()
        async for one in submissions:
            batch.append(one)
            if len(batch) >= HTTP_BATCH or time.monotonic() - begun > 0.05:  # noqa: PLR2004  # seconds
                await slots.acquire()
                group.create_task(_send(client, batch, slots))
                batch, begun = [], time.monotonic()
        if batch:
            await slots.acquire()
            group.create_task(_send(client, batch, slots))


async def _send(
    client: AsyncClient, batch: Sequence[Submission], slots: asyncio.Semaphore
) -> None:
    try:
        await client.submit_batch(
            [{"idempotency_key": one.key, "spec": msgspec.to_builtins(one.spec)} for one in batch]
        )
    finally:
        slots.release()
