"""Broker and database over TLS, with what the chart tells its processes: by the real clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.prepare import admit, create_topics, migrate
from deploy.local.services import KAFKA_ROLES, ROLES
from deploy.local.system import DATABASE
from shared.adapters.kafka.administration import broker_count
from shared.adapters.postgres.pool import Database
from shared.events.topics import NODE_FACTS, SUBMISSION_COMMANDS
from shared.ports.errors import Transient
from shared.ports.kafka_access import SecurityProtocol
from tests.fixtures.shared_folder import mark, shared_folder
from tests.support.kafka_access import may_write
from tests.support.tls_servers import TlsKafka, TlsPostgres, make_authority

pytestmark = pytest.mark.timeout(240, func_only=True)
ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
ANSWER_SECONDS = 3.0
KNOWN_SECONDS = 40.0


@pytest.fixture(scope="module")
def folder() -> Path:
    place = shared_folder() / "tls"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    return place


@pytest.fixture(scope="module")
def authority(folder: Path) -> Path:
    return make_authority(folder, "authority")


@pytest.fixture(scope="module")
def stranger(folder: Path) -> Path:
    """An authority that has signed nothing here."""
    return make_authority(folder, "stranger")


@pytest.fixture(scope="module")
def broker(folder: Path, authority: Path) -> Iterator[TlsKafka]:
    kafka = TlsKafka(folder / "kafka", authority, mark())
    kafka.start()
    yield kafka
    kafka.stop()


@pytest.fixture(scope="module")
def database(folder: Path, authority: Path) -> Iterator[TlsPostgres]:
    server = TlsPostgres(folder / "postgres", authority, mark(), certified="127.0.0.1")
    server.start()
    server.create_roles(ROLES)
    server.create_database(DATABASE)
    yield server
    server.stop()


async def test_topics_users_and_records_go_over_tls(broker: TlsKafka) -> None:
    create_topics(broker.administrator)
    admit(broker.administrator, broker.passwords(KAFKA_ROLES))
    names = [one.on_broker("muster") for one in (NODE_FACTS, SUBMISSION_COMMANDS)]

    assert await may_write(broker.access("fleet"), names) == {names[0]}


def test_a_broker_of_another_authority_is_not_told_a_password(
    broker: TlsKafka, stranger: Path
) -> None:
    known, unknown = broker.administrator, replace(broker.administrator, ca_file=str(stranger))
    plain = replace(known, protocol=SecurityProtocol.SASL_PLAINTEXT)

    assert broker_count(known, KNOWN_SECONDS) == 1
    assert [broker_count(one, ANSWER_SECONDS) for one in (unknown, plain)] == [0, 0]


async def test_tables_are_made_and_read_over_tls(database: TlsPostgres, authority: Path) -> None:
    migrate(database.tls_url("muster", authority))
    reader = Database(database.tls_url("placement", authority))
    try:
        (row,) = await reader.fetch(ENCRYPTED)
        nodes = await reader.fetch("SELECT count(*) AS count FROM placement.node")
    finally:
        await reader.close()

    assert (True, 0) == (row["ssl"], nodes[0]["count"])


async def test_a_database_of_another_authority_is_not_talked_to(
    database: TlsPostgres, stranger: Path
) -> None:
    await refused(database.tls_url("placement", stranger))


async def test_a_database_whose_certificate_names_another_is_refused_by_verify_full(
    folder: Path, authority: Path
) -> None:
    server = TlsPostgres(folder / "elsewhere", authority, mark(), certified="192.0.2.1")
    server.start()
    server.create_roles(ROLES)
    server.create_database(DATABASE)
    try:
        await refused(server.tls_url("placement", authority))
        reader = Database(server.tls_url("placement", authority, "verify-ca"))
        assert (await reader.fetch(ENCRYPTED))[0]["ssl"]
        await reader.close()
    finally:
        server.stop()


async def refused(url: str) -> None:
    reader = Database(url)
    with pytest.raises(Transient, match="certificate"):
        await reader.fetch(ENCRYPTED)
    await reader.close()
