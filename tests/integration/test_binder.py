"""The binder on a real broker, a real database and the simulated cluster as a process.

Binder and cluster are killed with -9 while they work. At the end every gang runs once, whole, and
every fact was told once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from deploy.local.processes import free_port
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.topics import create_topics
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.core.model.nouns import GpuShare, Placement, PodPlacement, PodSet
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.pods import BindWorkload, EvictPods
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import POD_COMMANDS, POD_FACTS
from shared.ports.cluster import Pod
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from tests.fixtures.servers import Database

WORKLOADS = 400


class Stack:
    """Cluster and binder as processes; placement is the test."""

    def __init__(self, kafka: str, database: Database, prefix: str, folder: Path) -> None:
        self.kafka, self.database, self.prefix = kafka, database, prefix
        self.port = free_port()
        self.environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": kafka,
            "MUSTER_DATABASE_URL": database.url("binder"),
            "MUSTER_TOPIC_PREFIX": prefix,
            "MUSTER_CLUSTER_URL": f"http://127.0.0.1:{self.port}",
            "MUSTER_CLUSTER_PORT": str(self.port),
            "MUSTER_CLUSTER_STATE": str(folder),
            "MUSTER_CLUSTER_START_DELAY_SECONDS": "0.05",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.publisher = KafkaPublisher(KafkaAccess(bootstrap=kafka), prefix)
        self.sent = 0

    def start(self, module: str, slot: str = "a") -> None:
        command = [sys.executable, "-m", module]
        output = None if os.environ.get("SHOW") else subprocess.DEVNULL
        environment = self.environment | {"MUSTER_SLOT": slot}
        process = subprocess.Popen(command, env=environment, stdout=output)
        self.processes[module if slot == "a" else f"{module}/{slot}"] = process

    def kill(self, module: str) -> None:
        process = self.processes.pop(module)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    async def send(self, payloads: Sequence[BindWorkload | EvictPods]) -> None:
        rows = []
        for payload in payloads:
            self.sent += 1
            rows.append(_row(payload, self.sent))
        await self.publisher.publish(rows)

    async def told(self) -> Counter[tuple[str, str]]:
        """Facts on the log by (workload, type); a repeated id counts once."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.kafka, enable_auto_commit=False)
        await consumer.start()
        place = TopicPartition(POD_FACTS.on_broker(self.prefix), 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        facts: dict[bytes, tuple[str, str]] = {}
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    headers = dict(record.headers)
                    kind = headers["ce_type"].decode().split(".")[2]
                    facts[headers["ce_id"]] = (record.key.decode(), kind)
        await consumer.stop()
        return Counter(facts.values())

    async def told_of(self, kind: str, count: int) -> Counter[tuple[str, str]]:
        """The same once `count` of `kind` are there: what is committed is published later."""
        deadline = time.monotonic() + 40
        facts = await self.told()
        while sum(one == kind for _, one in facts) < count:
            assert time.monotonic() < deadline, f"{facts}"
            facts = await self.told()
        return facts

    def states(self) -> Counter[str]:
        return Counter(self.database.execute("SELECT state FROM binder.attempt").split())

    async def settled(self, state: str, count: int, seconds: float = 40) -> None:
        """Wait until `count` attempts are in `state`."""
        deadline = time.monotonic() + seconds
        while self.states()[state] < count:
            assert time.monotonic() < deadline, f"{self.states()}"
            await asyncio.sleep(0.1)

    async def pods(self) -> list[Pod]:
        cluster = SimulatedCluster(f"http://127.0.0.1:{self.port}")
        try:
            async with asyncio.timeout(40):
                while True:
                    try:
                        return (await cluster.list_pods())[0]
                    except Transient:
                        await asyncio.sleep(0.1)
        finally:
            await cluster.close()


CLUSTER, BINDER = "shared.simulator.cluster", "services.binder"


@pytest.fixture
async def stack(
    kafka: str, database: Database, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[Stack]:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [POD_COMMANDS, POD_FACTS])
    stack = Stack(kafka, database, topic_prefix, tmp_path)
    stack.start(CLUSTER)
    stack.start(BINDER)
    yield stack
    await stack.publisher.close()
    for module in list(stack.processes):
        stack.kill(module)


def _row(payload: BindWorkload | EvictPods, number: int) -> OutboxRow:
    at_ms = time.time_ns() // 1_000_000
    event = Event(
        id=event_id(at_ms, f"test-{number}", "placement", 0),
        type=NAME_BY_TYPE[type(payload)],
        source="placement",
        subject=payload.workload_id,
        time_ms=at_ms,
        key=payload.workload_id,
        payload=payload,
    )
    return OutboxRow(
        seq=number,
        event_id=event.id,
        topic=POD_COMMANDS.name,
        partition=0,
        key=event.key,
        headers=encode_headers(event),
        value=encode_payload(payload),
    )


def a_bind(number: int, size: int = 1, seconds: int | None = None) -> BindWorkload:
    share = GpuShare(index=number % 8, mask=255, milli=1000, memory_mib=81_920)
    pods = tuple(
        PodPlacement(pod_set="main", rank=rank, node=f"node-{number}-{rank}", shares=(share,))
        for rank in range(size)
    )
    placement = Placement(flavor="h100", pods=pods, charge=Resources(gpu_milli=1000 * size))
    return BindWorkload(
        workload_id=f"w{number:025d}",
        team="red",
        attempt=1,
        epoch=1,
        placement=placement,
        pod_sets=(PodSet(image="a/b:1"),),
        expected_duration_seconds=seconds,
    )


def size_of(number: int) -> int:
    return 4 if number % 10 == 0 else 1


async def test_commands_become_pods_and_pods_become_facts(stack: Stack) -> None:
    binds = [a_bind(number, size_of(number)) for number in range(50)]
    evicts = [
        EvictPods(
            workload_id=one.workload_id,
            attempt=1,
            epoch=1,
            reason=Reason.OPERATOR,
            grace_seconds=5,
        )
        for one in binds[:10]
    ]

    await stack.send(binds)
    await stack.settled("running", 50)
    running = await stack.pods()
    await stack.send(evicts)
    await stack.settled("gone", 10)
    facts = await stack.told_of("gone", 10)

    assert len(running) == sum(size_of(number) for number in range(50))
    assert {pod.phase for pod in running} == {"Running"}
    assert {key for key, count in facts.items() if count != 1} == set()
    assert sum(kind == "running" for _, kind in facts) == 50
    assert {name for name, kind in facts if kind == "gone"} == {one.workload_id for one in evicts}
    evicted = {one.workload_id for one in evicts}
    assert not evicted & {pod.workload_id for pod in await stack.pods()}


async def test_pods_that_end_are_told_and_removed_from_the_cluster(stack: Stack) -> None:
    await stack.send([a_bind(number, size_of(number), seconds=1) for number in range(30)])

    await stack.settled("finished", 30)
    async with asyncio.timeout(40):
        while await stack.pods():
            await asyncio.sleep(0.1)

    facts = await stack.told_of("finished", 30)
    assert sum(kind == "finished" for _, kind in facts) == 30


async def test_kills_of_binder_and_cluster_leave_every_gang_whole_and_once(stack: Stack) -> None:
    seen: dict[str, set[str]] = {}
    for part in range(8):
        binds = range(part * WORKLOADS // 8, (part + 1) * WORKLOADS // 8)
        await stack.send([a_bind(number, size_of(number)) for number in binds])
        victim = CLUSTER if part % 3 == 2 else BINDER
        await asyncio.sleep(0.4 + 0.1 * part)
        stack.kill(victim)
        stack.start(victim)
        for pod in await stack.pods():
            seen.setdefault(pod.name, set()).add(pod.uid)

    await stack.settled("running", WORKLOADS)
    pods = await stack.pods()
    facts = await stack.told_of("running", WORKLOADS)

    for pod in pods:
        seen.setdefault(pod.name, set()).add(pod.uid)
    assert Counter(pod.workload_id for pod in pods) == {
        a_bind(number).workload_id: size_of(number) for number in range(WORKLOADS)
    }
    assert {pod.phase for pod in pods} == {"Running"}
    assert [name for name, uids in seen.items() if len(uids) > 1] == []
    assert {key for key, count in facts.items() if count != 1} == set()
    assert sum(kind == "running" for _, kind in facts) == WORKLOADS
    assert not any(kind == "refused" for _, kind in facts)


@pytest.mark.slow
async def test_a_binder_frozen_past_its_lease_undoes_nothing_of_its_successor(
    stack: Stack,
) -> None:
    binds = [a_bind(number, size_of(number)) for number in range(60)]
    evicts = [
        EvictPods(
            workload_id=one.workload_id,
            attempt=1,
            epoch=1,
            reason=Reason.OPERATOR,
            grace_seconds=5,
        )
        for one in binds[:30]
    ]
    await stack.send(binds[:40])
    await stack.settled("running", 40)
    await stack.send(binds[40:])
    stack.processes[BINDER].send_signal(signal.SIGSTOP)
    stack.start(BINDER, slot="b")

    await stack.settled("running", 60)
    await stack.send(evicts)
    await stack.settled("gone", 30)
    stack.processes[BINDER].send_signal(signal.SIGCONT)
    await asyncio.sleep(6)

    facts = await stack.told_of("gone", 30)
    assert {pod.workload_id for pod in await stack.pods()} == {
        one.workload_id for one in binds[30:]
    }
    assert stack.states() == {"running": 30, "gone": 30}
    assert {key for key, count in facts.items() if count != 1} == set()
    assert len(facts) == sum(stack.states().values()) + 30 + _bound(facts)


def _bound(facts: Counter[tuple[str, str]]) -> int:
    return sum(kind == "bound" for _, kind in facts)
