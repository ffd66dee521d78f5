"""The gateway while its database connections are cut again and again."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.events.topics import SUBMISSION_COMMANDS
from tests.fixtures.servers import Database
from tests.support.gateway import SPEC, Gateway, until

ROUNDS = 15
CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def _published(gateway: Gateway, wanted: set[str]) -> Counter[str]:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=gateway.settings.kafka_bootstrap, auto_offset_reset="earliest"
    )
    topic = SUBMISSION_COMMANDS.on_broker(gateway.settings.topic_prefix)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        found: Counter[str] = Counter()
        async with asyncio.timeout(60):
            while not wanted <= set(found):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    ids = [dict(record.headers)["ce_id"] for record in records]
                    keys = [record.key.decode() for record in records]
                    found.update({key for key, _ in set(zip(keys, ids, strict=True))})
        return found
    finally:
        await consumer.stop()


async def test_cut_connections_cost_503_at_most_and_nothing_accepted_is_lost(
    gateway: Gateway, database: Database
):
    key = await gateway.key("red", "member")
    statuses: Counter[int] = Counter()
    accepted: dict[str, str] = {}
    stopping = asyncio.Event()

    async def client(name: str) -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            headers = {"Idempotency-Key": f"{name}-{number}"}
            reply = await gateway.call("POST", "/v1/workloads", SPEC, key=key, headers=headers)
            statuses[reply.status] += 1
            if reply.status == 202:
                accepted[f"{name}-{number}"] = reply.body["id"]

    clients = [asyncio.create_task(client(f"c{number}")) for number in range(8)]
    for _ in range(ROUNDS):
        await asyncio.to_thread(database.execute, CUT)
        await asyncio.sleep(0.1)
    stopping.set()
    await asyncio.gather(*clients)

    async def recovered() -> bool:
        reply = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
        return reply.status == 202

    assert await until(recovered, 5)
    kept = set(database.execute("SELECT workload_id FROM gateway.accepted_request").split())
    published = await _published(gateway, kept)
    epochs = int(database.execute("SELECT max(epoch) FROM gateway.lease_history").strip())
    assert set(statuses) <= {202, 429, 503}
    assert len(accepted) > 20
    assert set(accepted.values()) <= kept
    assert len(set(accepted.values())) == len(accepted)
    assert set(published) == kept
    assert epochs > 2, "no connection was cut while it mattered"
