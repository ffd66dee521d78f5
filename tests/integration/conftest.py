"""What integration tests share: a gateway of two teams."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, running_gateway


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        yield running
