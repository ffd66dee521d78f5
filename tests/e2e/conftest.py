"""What tests of a whole system share; each module brings its own `system`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from deploy.local.system import LocalSystem
from tests.support.system import Stage


@pytest.fixture
async def stage(system: LocalSystem) -> AsyncIterator[Stage]:
    """Connections to the module's system, for one test."""
    stage = Stage(system)
    await stage.connect()
    yield stage
    await stage.disconnect()
