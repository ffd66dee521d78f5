"""Puts store, engine and routes together, and serves until told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from shared.ports.clock import Clock
from shared.simulator.cluster.engine import Engine
from shared.simulator.cluster.routes import Routes, seeded_dice
from shared.simulator.cluster.settings import ClusterSettings
from shared.simulator.cluster.store import PodStore
from shared.simulator.pods import Pods


@asynccontextmanager
async def serving(settings: ClusterSettings, clock: Clock) -> AsyncIterator[tuple[Engine, int]]:
    """The engine and the port it is served on; everything answered is durable.

    Raises:
        OSError: the port is in use.
        sqlite3.OperationalError: another process has the store.
    """
    store = PodStore(settings.state)
    try:
        snapshot, starts = store.load()
        dice = seeded_dice(settings.faults(), settings.seed, starts)
        engine = Engine(
            pods=Pods(settings.timing(), settings.seed, snapshot, dice.kubelet),
            store=store,
            dice=dice,
            clock=clock,
            window_events=settings.window_events,
        )
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(engine.run())
            application = Routes(engine, settings.heartbeat_seconds).application()
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2)
            await runner.setup()
            try:
                site = web.TCPSite(runner, settings.host, settings.port)
                await site.start()
                yield engine, runner.addresses[0][1]
            finally:
                await runner.cleanup()
                running.cancel()
    finally:
        store.close()
