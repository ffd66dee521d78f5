"""Worlds that every test of the binder may use."""

import pytest

from tests.unit.binder.world import World, without_backoff


@pytest.fixture
async def world(monkeypatch):
    without_backoff(monkeypatch)
    world = World()
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def slow(monkeypatch):
    """Pods need half a second to start and to stop."""
    without_backoff(monkeypatch)
    world = World(start_ms=500, stop_ms=500)
    await world.start()
    yield world
    await world.stop()
