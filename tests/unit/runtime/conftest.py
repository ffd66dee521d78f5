"""The loop on the fakes, ended after each test."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.runtime.world import World


@pytest.fixture
async def world(monkeypatch):
    world = World(monkeypatch)
    yield world
    if world.task is not None:
        world.task.cancel()
        await asyncio.gather(world.task, return_exceptions=True)
