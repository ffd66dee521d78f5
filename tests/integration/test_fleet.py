"""The simulated fleet as a process: its nodes on the log, failures on demand."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
from aiokafka import AIOKafkaConsumer, TopicPartition

from deploy.local.processes import free_port
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.topics import create_topics
from shared.events.codec import decode_payload, encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.nodes import (
    GpuHealthReported,
    GpuUsageReported,
    NodeInventoryReported,
    ReconfigureGpu,
)
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import AGENT_COMMANDS, NODE_FACTS, USAGE_FACTS, Topic
from shared.events.workloads import Wire
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow

NODES = 1_200


async def read_all(kafka: str, prefix: str, topic: Topic) -> list[Wire]:
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, enable_auto_commit=False)
    await consumer.start()
    place = TopicPartition(topic.on_broker(prefix), 0)
    consumer.assign([place])
    await consumer.seek_to_beginning(place)
    end = (await consumer.end_offsets([place]))[place]
    payloads = []
    while await consumer.position(place) < end:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            for record in records:
                headers = dict(record.headers)
                payloads.append(decode_payload(headers["ce_type"].decode(), record.value))
    await consumer.stop()
    return payloads


async def ask_for_mig(kafka: str, prefix: str, node: str, left_ms: int) -> None:
    """Ask for the MIG mode of GPU 1, with so much time left."""
    now_ms = time.time_ns() // 1_000_000
    payload = ReconfigureGpu(node=node, gpu=1, mig=True, expires_at_ms=now_ms + left_ms, epoch=1)
    event = Event(
        id=event_id(now_ms, f"{node}-mig", "placement", 0),
        type=NAME_BY_TYPE[ReconfigureGpu],
        source="placement",
        subject=node,
        time_ms=now_ms,
        key=node,
        payload=payload,
    )
    row = OutboxRow(
        seq=1,
        event_id=event.id,
        topic=AGENT_COMMANDS.name,
        partition=0,
        key=node,
        headers=encode_headers(event),
        value=encode_payload(payload),
    )
    publisher = KafkaPublisher(KafkaAccess(bootstrap=kafka), prefix)
    await publisher.publish([row])
    await publisher.close()


def switched_and_failed(facts: list[Wire]) -> bool:
    """Whether a GPU was switched, and a GPU and a node are told to have failed."""
    nodes = [one.node for one in facts if isinstance(one, NodeInventoryReported)]
    mig = any(one.name.startswith("a100-0") and one.gpus[1].mig for one in nodes)
    return mig and sum(isinstance(one, GpuHealthReported) for one in facts) >= 2


async def ready(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                if (await session.get("/readyz")).status == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


async def test_a_fleet_tells_all_its_nodes_its_use_and_its_failures(
    kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    await create_topics(
        KafkaAccess(bootstrap=kafka), topic_prefix, [NODE_FACTS, USAGE_FACTS, AGENT_COMMANDS]
    )
    port = free_port()
    environment = os.environ | {
        "MUSTER_KAFKA_BOOTSTRAP": kafka,
        "MUSTER_TOPIC_PREFIX": topic_prefix,
        "MUSTER_HTTP_PORT": str(port),
        "MUSTER_CLUSTER_URL": "",
    }
    command = [sys.executable, "-m", "shared.simulator.fleet"]
    started = time.monotonic()
    process = subprocess.Popen(command, env=environment)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            await ready(session)
            await session.post("/v1/nodes/h100-0003/gpus/2/fail")
            await session.post("/v1/nodes/a100-0001/down")
            await ask_for_mig(kafka, topic_prefix, "a100-0002", 60_000)
            await ask_for_mig(kafka, topic_prefix, "a100-0003", -60_000)
            await asyncio.sleep(3)
        async with asyncio.timeout(40):
            facts = await read_all(kafka, topic_prefix, NODE_FACTS)
            while not switched_and_failed(facts):
                await asyncio.sleep(0.1)
                facts = await read_all(kafka, topic_prefix, NODE_FACTS)
            while len(usage := await read_all(kafka, topic_prefix, USAGE_FACTS)) <= 50:
                await asyncio.sleep(0.1)
        seconds = time.monotonic() - started
    finally:
        process.terminate()
        code = process.wait(20)

    inventories = [fact for fact in facts if isinstance(fact, NodeInventoryReported)]
    health = [fact for fact in facts if isinstance(fact, GpuHealthReported)]
    assert len({fact.node.name for fact in inventories}) == len(inventories) - 1 == NODES
    (switched,) = [
        one for one in inventories if one.node.name.startswith("a100-0") and one.node.gpus[1].mig
    ]
    assert (switched.node.name, switched.node.gpus[0].mig) == ("a100-0002", False)
    assert [(one.node, one.gpu, one.healthy) for one in health] == [
        ("h100-0003", 2, False), ("a100-0001", -1, False),
    ]  # fmt: skip
    assert all(isinstance(fact, GpuUsageReported) for fact in usage)
    assert 50 < len(usage) <= 200 * (seconds + 2)
    assert code == 0
