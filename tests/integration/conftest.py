"""What integration tests share: a gateway of two teams, and a chain of two services."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from deploy.local.database_server import DatabaseServer
from operations.check.model import Row
from shared.adapters.kafka.topics import create_topics
from shared.adapters.postgres.pool import Database as Pool
from shared.events.topics import TOPICS
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import TEMPLATE, Database
from tests.support.chain import Chain
from tests.support.checker import read
from tests.support.gateway import Gateway, running_gateway
from tests.support.webhooks import Notifications, Receiver
from tests.unit.operations.world import healthy


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        yield running


@pytest.fixture
async def chain(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Chain]:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, TOPICS)
    chain = Chain(kafka, database, topic_prefix)
    yield chain
    chain.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    one = Receiver()
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def service(
    kafka: str, database: Database, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[Notifications]:
    one = Notifications(kafka, database, topic_prefix, tmp_path)
    await one.prepare()
    yield one
    await one.close()


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    """Connections of placement."""
    pool = Pool(database.url("placement"))
    yield pool
    await pool.close()


@pytest.fixture(scope="session")
def clean_rows(postgres: DatabaseServer) -> Iterator[dict[str, Sequence[Row]]]:
    """Rows of the checker's healthy world, read once from a real database."""
    name = f"test_check_rows_{os.getpid()}"
    postgres.create_database(name, TEMPLATE)
    yield read(Database(postgres, name), healthy()).rows
    postgres.drop_database(name)
