"""The world that the tests of native pods begin in."""

import pytest

from tests.support.native_world import TEAM, World


@pytest.fixture
async def world():
    world = World()
    await world.load()
    world.fact(TEAM)
    yield world
    await world.handler.suspend()
