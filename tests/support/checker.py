"""The checker at work on a planted world: its evidence, and which invariants are violated."""

import asyncio
import json
from collections.abc import Iterable

from aiokafka import AIOKafkaProducer

from operations.check.database import read_rows
from operations.check.model import Evidence, Record
from operations.check.runner import judge
from tests.fixtures.servers import Database
from tests.unit.operations.world import World


def violated(evidence: Evidence) -> dict[str, list[str]]:
    return {
        result.id: [f"{one.subject}: {one.detail}" for one in result.violations]
        for result in judge(evidence)
        if not result.ok
    }


def read(database: Database, world: World, *extra: str) -> Evidence:
    database.execute("BEGIN", *world.sql, *extra, "COMMIT")
    return world.evidence(asyncio.run(read_rows(database.url())))


async def produce(kafka: str, prefix: str, records: Iterable[Record]) -> None:
    """Write the records of a world to a real log."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka, acks="all")
    await producer.start()
    try:
        for one in records:
            await producer.send_and_wait(
                f"{prefix}.{one.topic}",
                json.dumps(one.payload).encode(),
                partition=one.partition,
                headers=[
                    ("ce_id", one.id.encode()),
                    ("ce_type", one.type.encode()),
                    ("ce_source", one.source.encode()),
                    ("ce_sequence", str(one.sequence).encode()),
                    ("ce_causationid", one.causation_id.encode()),
                    ("ce_subject", one.subject.encode()),
                    ("ce_time", b"2026-01-01T00:00:00.000Z"),
                ],
            )
    finally:
        await producer.stop()
