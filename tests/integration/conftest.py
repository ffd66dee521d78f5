"""What integration tests share: a gateway of two teams, and a chain of two services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.adapters.kafka.topics import create_topics
from shared.adapters.postgres.pool import Database as Pool
from shared.events.topics import TOPICS
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import Database
from tests.support.chain import Chain
from tests.support.gateway import Gateway, running_gateway


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
async def pool(database: Database) -> AsyncIterator[Pool]:
    """Connections of placement."""
    pool = Pool(database.url("placement"))
    yield pool
    await pool.close()
