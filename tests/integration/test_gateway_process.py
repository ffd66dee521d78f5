"""A gateway process of its own, ended in every way: what was accepted is kept and published."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from deploy.local.processes import free_port
from services.gateway.documents.keys import mint
from services.gateway.projection.projection import Projection
from shared.adapters.kafka.topics import create_topics
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.unit_statement import build
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, PodPlacement, Workload, WorkloadKind, WorkloadSpec
from shared.core.model.units import Resources
from shared.events import topics, workloads
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import Unit
from tests.fixtures.servers import Database
from tests.support.gateway import SPEC, until

AT_ONCE_SECONDS = 5


class Process:
    """`python -m services.gateway` with all roles."""

    def __init__(self, kafka: str, database: Database, prefix: str) -> None:
        self.key = mint(os.urandom).text
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.running: subprocess.Popen | None = None
        self.environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": kafka,
            "MUSTER_DATABASE_URL": database.url("gateway"),
            "MUSTER_TOPIC_PREFIX": prefix,
            "MUSTER_HTTP_PORT": str(self.port),
            "MUSTER_BOOTSTRAP_KEY": self.key,
            "MUSTER_LOG_LEVEL": "error",
        }

    def start(self) -> None:
        command = [sys.executable, "-m", "services.gateway"]
        self.running = subprocess.Popen(command, env=self.environment)

    async def ready(self, http: aiohttp.ClientSession) -> bool:
        try:
            async with http.get(f"{self.address}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def end(self, number: signal.Signals) -> int:
        assert self.running is not None
        self.running.send_signal(number)
        return self.running.wait(20)


@pytest.fixture
async def process(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Process]:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, topics.TOPICS)
    made = Process(kafka, database, topic_prefix)
    made.start()
    yield made
    assert made.running is not None
    made.running.kill()
    made.running.wait()


async def _organise(process: Process, http: aiohttp.ClientSession) -> None:
    await until(lambda: process.ready(http))
    async with http.patch(f"{process.address}/v1/teams/red", json={"kafka": False}) as response:
        assert response.status == 201, await response.text()


async def _submit_until_it_ends(process: Process, accepted: set[str], others: list[int]) -> None:
    """Eight clients that submit until the connection breaks."""
    headers = {"Authorization": f"Bearer {process.key}"}

    async def client(http: aiohttp.ClientSession) -> None:
        while True:
            url = f"{process.address}/v1/workloads?team=red"
            async with http.post(url, json=SPEC, headers=headers) as response:
                body = await response.json()
                if response.status == 202:
                    accepted.add(body["id"])
                else:
                    others.append(response.status)

    async with aiohttp.ClientSession() as http:
        clients = [client(http) for _ in range(8)]
        await asyncio.gather(*clients, return_exceptions=True)


async def _published(process: Process, wanted: set[str]) -> list[str]:
    """Keys of the commands on the log, once all of `wanted` are there."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=process.environment["MUSTER_KAFKA_BOOTSTRAP"],
        auto_offset_reset="earliest",
    )
    prefix = process.environment["MUSTER_TOPIC_PREFIX"]
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topics.SUBMISSION_COMMANDS.on_broker(prefix), 0)])
        found: list[str] = []
        async with asyncio.timeout(60):
            while not wanted <= set(found):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [record.key.decode() for record in records]
        return found
    finally:
        await consumer.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_what_was_accepted_before_the_end_is_kept_and_published(
    process: Process, database: Database, number: signal.Signals
):
    accepted: set[str] = set()
    others: list[int] = []
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {process.key}"}) as http:
        await _organise(process, http)
        loading = asyncio.create_task(_submit_until_it_ends(process, accepted, others))
        await until(lambda: _more_than(accepted, 200))
        code = await asyncio.to_thread(process.end, number)
        await loading
        process.start()
        await until(lambda: process.ready(http))
        kept = set(database.execute("SELECT workload_id FROM gateway.accepted_request").split())
        published = await _published(process, kept)  # more than was answered, if it was killed

    assert (code, others) == ((0, []) if number is signal.SIGTERM else (-signal.SIGKILL, []))
    assert len(accepted) > 200
    assert accepted <= kept
    assert set(published) == kept


async def _more_than(accepted: set[str], count: int) -> bool:
    return len(accepted) > count


async def test_a_process_without_its_lease_is_not_ready_and_ends_at_once_when_asked_to(
    process: Process, kafka: str, database: Database, topic_prefix: str
):
    other = Process(kafka, database, topic_prefix)
    other.environment |= {"MUSTER_SLOT": "another", "MUSTER_GATEWAY_ROLES": "http"}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {process.key}"}) as http:
        await until(lambda: process.ready(http))
        other.start()
        assert other.running is not None
        await until(lambda: _lives(other, http))
        ready = await other.ready(http)
        url = f"{other.address}/v1/workloads?team=red"
        async with http.post(url, json=SPEC) as response:
            status, retry_after = response.status, response.headers.get("Retry-After")
        started = time.monotonic()
        code = await asyncio.to_thread(other.end, signal.SIGTERM)

    assert (ready, code) == (False, 0)
    assert (status, retry_after) in ((404, None), (503, "1"))
    assert time.monotonic() - started < AT_ONCE_SECONDS


async def _lives(process: Process, http: aiohttp.ClientSession) -> bool:
    try:
        async with http.get(f"{process.address}/healthz") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def test_a_stream_ends_when_the_process_is_asked_to(process: Process):
    headers = {"Authorization": f"Bearer {process.key}", "Accept": "text/event-stream"}
    async with aiohttp.ClientSession(headers=headers) as http:
        await until(lambda: process.ready(http))
        async with http.get(f"{process.address}/v1/events") as stream:
            first = await stream.content.readline()
            code = await asyncio.to_thread(process.end, signal.SIGTERM)
            rest = await stream.content.read()

    assert (first, rest, code) == (b": muster\n", b"id: 0\n\n", 0)


def _story() -> list[workloads.Wire]:
    spec = WorkloadSpec(name="n", kind=WorkloadKind.TRAINING, labels={"a": "b"})
    workload = Workload(
        id="w1", team="red", queue="red", cell=0, priority=1, spec=spec, submitted_at_ms=500
    )
    placement = Placement(
        flavor="f",
        pods=(PodPlacement(pod_set="main", rank=0, node="n-1"),),
        charge=Resources(gpu_milli=1000),
    )
    base: dict[str, Any] = {"workload_id": "w1", "team": "red", "queue": "red", "priority": 1}
    return [
        workloads.WorkloadQueued(workload=workload, body_hash="h"),
        workloads.WorkloadPlaced(
            **base,
            version=2,
            state=State.PLACED,
            attempt=1,
            placement=placement,
            placed_at_ms=700,
            submitted_at_ms=500,
        ),
        workloads.WorkloadRequeued(**base, version=4, state=State.QUEUED, attempt=1),
        workloads.WorkloadPlaced(
            **base,
            version=5,
            state=State.PLACED,
            attempt=2,
            placement=placement,
            placed_at_ms=1_003,
            submitted_at_ms=500,
        ),
        workloads.WorkloadCancelled(**base, version=6, state=State.CANCELLED, attempt=2),
    ]


async def test_wherever_admissions_fact_comes_in_and_however_facts_are_cut_the_row_is_the_same(
    database: Database,
):
    queued, *others = (_told(payload, number) for number, payload in enumerate(_story()))
    pool = Pool(database.url("gateway"))
    await pool.execute("INSERT INTO gateway.lease (shard, epoch) VALUES ('p', 1)")
    await pool.execute("INSERT INTO gateway.watermark (shard) VALUES ('p')")
    rows = set()
    for place in range(len(others) + 1):
        order = [*others[:place], queued, *others[place:]]
        for cuts in product((False, True), repeat=len(order) - 1):
            rows.add(await _row_after(pool, _batches(order, cuts)))
    await pool.close()

    assert len(rows) == 1
    assert {"cancelled", "n", "f"} <= set(next(iter(rows)))


def _told(payload: workloads.Wire, number: int) -> Received:
    event = Event(
        id=event_id(1_000 + number, "x", "x", number),
        type=NAME_BY_TYPE[type(payload)],
        source="x",
        subject="w1",
        time_ms=1_000 + number,
        key="w1",
        payload=payload,
    )
    return Received(event=event, topic="t", partition=0, offset=number)


def _batches(order: Sequence[Received], cuts: Sequence[bool]) -> list[list[Received]]:
    """`order` cut behind each message whose cut is true."""
    batches = [[order[0]]]
    for message, cut in zip(order[1:], cuts, strict=True):
        if cut:
            batches.append([])
        batches[-1].append(message)
    return batches


async def _row_after(pool: Pool, batches: Sequence[Sequence[Received]]) -> tuple[str, ...]:
    """The row of the workload after `batches`, each in a unit of its own."""
    for table in ("workload", "workload_spec"):
        await pool.execute(f"DELETE FROM gateway.{table}")
    projection = Projection()
    await projection.load(pool)
    for batch in batches:
        unit = Unit(writes=projection.decide(batch, 0).writes)
        statement = build(unit, "gateway", "p", 1, 1)
        await pool.fetch(statement.text(), *statement.arguments)
    (found,) = await pool.fetch(
        "SELECT w.*, s.spec FROM gateway.workload w JOIN gateway.workload_spec s USING (id)"
    )
    return tuple(str(one) for one in found.values())


async def test_a_second_gateway_of_one_slot_ends_and_names_the_first(process: Process) -> None:
    headers = {"Authorization": f"Bearer {process.key}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        await until(lambda: process.ready(http))
        environment = process.environment | {"MUSTER_HTTP_PORT": str(free_port())}
        command = [sys.executable, "-m", "services.gateway"]
        second = await asyncio.create_subprocess_exec(
            *command, env=environment, stderr=asyncio.subprocess.PIPE
        )

        _, said = await asyncio.wait_for(second.communicate(), 60)

        assert process.running is not None
        assert 1 == second.returncode, said
        assert f", pid {process.running.pid} on " in said.decode()
        assert said.decode().startswith("slot local is held by another process")
        assert await process.ready(http)
