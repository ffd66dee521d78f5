"""The gateway of these tests knows red and blue, who share a cohort."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.servers import Database
from tests.support.gateway import Gateway
from tests.support.two_teams import two_teams


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with two_teams(kafka, database, topic_prefix) as running_one:
        yield running_one
