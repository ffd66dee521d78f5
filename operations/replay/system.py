"""What a replay makes of a running Muster: an organisation for one team, and a reported fleet.

The organisation is applied through `/v1` like any other; the nodes report themselves by the
telemetry events of their agents, before the organisation: the gateway takes a product that no
node reports for the short name of another (T4 for Tesla-T4), and refuses a flavor that names it.
Work is sent only when every service has read both: what it does not know yet it could judge
wrongly.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from muster.client import AsyncClient
from operations.replay.openb import FLAVOR, PRIORITY_CLASS, Trace, quota_of
from shared.adapters.kafka.client import options, start
from shared.core.model.nouns import Node
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.nodes import NodeInventoryReported
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import NODE_FACTS, ORGANISATION_FACTS
from shared.ports.kafka_access import KafkaAccess

Document = tuple[str, str, dict[str, Any]]
"""(collection, name, body) of a PUT."""
SOURCE: Final = "replay"
READ_SECONDS_MAX: Final = 120.0
FLEET_READERS: Final = (("gateway", NODE_FACTS.name),)
"""Services that must know the nodes before the organisation is applied."""
READERS: Final = (
    ("admission", NODE_FACTS.name),
    ("admission", ORGANISATION_FACTS.name),
    ("quota", ORGANISATION_FACTS.name),
    ("placement", NODE_FACTS.name),
)


class NotReady(OSError):  # noqa: N818  # says what happened
    """A service has not read what it must know."""


async def apply_organisation(client: AsyncClient, team: str, trace: Trace) -> None:
    """Flavor, priority class, team and queue; applying them again changes nothing."""
    quota = msgspec.to_builtins(quota_of(trace.capacity))
    documents: list[Document] = [
        ("flavors", FLAVOR, {"products": list(trace.products)}),
        ("priority-classes", PRIORITY_CLASS, {"value": 100}),
        ("teams", team, {"default_queue": team}),
        ("queues", team, {"team": team, "flavors": [{"flavor": FLAVOR, "nominal": quota}]}),
    ]
    await apply_documents(client, documents)


async def apply_documents(client: AsyncClient, documents: Sequence[Document]) -> None:
    """Make each so, in order; what is so already stays."""
    for collection, name, body in documents:
        before = await client.document(collection, name)
        await client.apply(collection, name, body, etag=before[1] if before else None)


def inventory_of(node: Node, now_ms: int) -> Event:
    """The event by which the agent of `node` reports it."""
    payload = NodeInventoryReported(node=node, generation=1)
    return Event(
        id=event_id(now_ms, node.name, SOURCE, 0),
        type=NAME_BY_TYPE[NodeInventoryReported],
        source=SOURCE,
        subject=node.name,
        time_ms=now_ms,
        key=node.name,
        payload=payload,
    )


async def report_nodes(
    access: KafkaAccess, prefix: str, nodes: Sequence[Node], now_ms: int
) -> None:
    """Publish the inventory of every node; returns when the log has all of them."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**options(access), acks="all", linger_ms=5)
    try:
        await start(producer, access)
        sent = []
        for node in nodes:
            event = inventory_of(node, now_ms)
            sent.append(
                await producer.send(
                    NODE_FACTS.on_broker(prefix),
                    encode_payload(event.payload),
                    key=event.key.encode(),
                    partition=0,
                    headers=encode_headers(event),
                )
            )
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def wait_until_read(
    access: KafkaAccess, prefix: str, database: str, readers: Sequence[tuple[str, str]] = READERS
) -> None:
    """Return when each of `readers`, (service, topic), stands at the end of its topic.

    Raises:
        NotReady: one does not get there in `READ_SECONDS_MAX`.
    """
    import asyncpg
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(**options(access))
    try:
        await start(consumer, access)
        topics = sorted({topic for _, topic in readers})
        places = [TopicPartition(f"{prefix}.{topic}", 0) for topic in topics]
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
    finally:
        await consumer.stop()
    wanted = {topic: ends[place] for topic, place in zip(topics, places, strict=True)}
    connection = await asyncpg.connect(database)
    try:
        await _wait(connection, readers, wanted)
    finally:
        await connection.close()


async def _wait(
    connection: Any,  # noqa: ANN401  # untyped
    readers: Sequence[tuple[str, str]],
    wanted: dict[str, int],
) -> None:
    deadline = time.monotonic() + READ_SECONDS_MAX
    while True:
        behind = [one for one in readers if await _offset(connection, one) < wanted[one[1]]]
        if not behind:
            return
        if time.monotonic() > deadline:
            names = ", ".join(f"{service} of {topic}" for service, topic in behind)
            raise NotReady(f"not read in {READ_SECONDS_MAX:.0f} s: {names}; is the service up?")
        await asyncio.sleep(0.1)


async def _offset(connection: Any, reader: tuple[str, str]) -> int:  # noqa: ANN401  # untyped
    service, topic = reader
    sql = (
        f"SELECT coalesce(max(next_offset), 0) FROM {service}.consumer_offset"  # noqa: S608  # a constant above
        " WHERE topic = $1 AND partition = 0"
    )
    return int(await connection.fetchval(sql, topic))
