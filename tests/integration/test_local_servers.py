"""The real broker and database of `deploy.local`: what was acknowledged survives a SIGKILL."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from deploy.local import kafka_jars, postgres
from deploy.local.kafka import LocalKafka
from deploy.local.postgres import LocalPostgres
from deploy.local.processes import LocalError, descendants, running, wait_until
from tests.fixtures.shared_folder import mark


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalKafka]:
    broker = LocalKafka(tmp_path / "kafka", environment=mark())
    yield broker
    broker.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalPostgres]:
    server = LocalPostgres(tmp_path / "postgres", environment=mark())
    yield server
    server.kill()
    server.remove()


def test_a_killed_broker_keeps_what_it_acknowledged(broker: LocalKafka):
    broker.start()
    asyncio.run(_produce(broker.bootstrap, [b"first", b"second"]))

    broker.kill()
    broker.start()

    assert asyncio.run(_consume(broker.bootstrap, 2)) == [b"first", b"second"]


def test_a_stopped_broker_starts_again_on_its_port(broker: LocalKafka):
    broker.start()
    before = broker.bootstrap

    broker.stop()
    assert not broker.answers()
    broker.start()

    assert before == broker.bootstrap
    assert broker.answers()


def test_a_database_that_recovers_is_waited_for_however_long(
    server: LocalPostgres, monkeypatch: pytest.MonkeyPatch
):
    """One that recovers for ever, as a standby without connections does, until it is promoted."""
    server.start()
    server.stop()
    data = server.folder / "data"
    monkeypatch.setattr(postgres, "SETTINGS", f"{postgres.SETTINGS}\nhot_standby = off\n")
    monkeypatch.setattr(postgres, "START_SECONDS", 0.5)
    (data / "standby.signal").touch(mode=0o644)
    asked: list[bool] = []
    recovers = server.recovers

    def until_promoted() -> bool:
        if not asked:  # half a second after the start it may not even answer that it recovers
            wait_until(recovers, seconds=60, what="the recovery to begin")
        asked.append(recovers())
        if len(asked) == 3:
            (data / "promote").touch(mode=0o644)
            os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGUSR1)
        return asked[-1]

    monkeypatch.setattr(server, "recovers", until_promoted)
    server.start()

    assert [True] * 3 == asked[:3]
    assert server.answers()
    assert not recovers()


def test_a_killed_database_keeps_what_it_committed(server: LocalPostgres):
    server.start()
    server.create_database("muster")
    server.execute("CREATE TABLE seen (id int)", "INSERT INTO seen VALUES (7)", database="muster")
    family = [server.pid, *descendants(server.pid or 0)]

    server.kill()
    assert not any(running(pid) for pid in family if pid)
    server.start()

    assert server.execute("SELECT id FROM seen", database="muster") == "7"
    assert server.execute("SHOW fsync") == "on"


def test_a_service_role_has_its_own_password_and_time_outs(server: LocalPostgres):
    server.start()
    server.create_database("muster")
    server.create_roles(["node-agent"])
    server.create_roles(["node-agent"])

    assert asyncio.run(_who(server.url("node-agent"))) == ("muster_node_agent", "5s")


def test_a_refused_statement_names_its_reason(server: LocalPostgres):
    server.start()

    with pytest.raises(LocalError, match="does not exist"):
        server.execute("SELECT * FROM nowhere")


def test_a_missing_java_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(LocalError, match="apt-get install openjdk"):
        kafka_jars.fetched_jars()


def test_a_missing_maven_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")

    with pytest.raises(LocalError, match="apt-get install maven"):
        kafka_jars.fetched_jars()


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")

    with pytest.raises(LocalError, match="17 or newer, not 11"):
        kafka_jars.require_java()


def test_a_port_in_use_is_named(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = LocalPostgres(tmp_path / "postgres", port=taken.getsockname()[1])

        with pytest.raises(LocalError, match="Address already in use"):
            server.start()

    server.remove()


async def _produce(bootstrap: str, values: list[bytes]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic("kept", num_partitions=1, replication_factor=1)])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for value in values:
            await producer.send_and_wait("kept", value)


async def _consume(bootstrap: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer("kept", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(30):
        return [(await consumer.getone()).value for _ in range(count)]


async def _who(url: str) -> tuple[str, str]:
    connection = await asyncpg.connect(url)
    row = await connection.fetchrow("SELECT current_user, current_setting('statement_timeout')")
    await connection.close()
    assert row is not None
    return str(row[0]), str(row[1])
