"""The processes of the simulated cell: the real loop and session around real handlers."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

import structlog

from services.admission.handler import AdmissionHandler
from services.binder import watcher
from services.binder.handler import BinderHandler
from services.placement.handlers import PlacementHandler
from services.quota.handler import QuotaHandler
from shared.adapters.memory import MemoryLease
from shared.adapters.memory_log import MemorySubscription
from shared.ports.errors import MusterError
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import Handler
from shared.runtime.loop import Loop
from shared.runtime.session import Session
from tests.simulation.ports import SHARD, SimulatedPublisher, SimulatedStore, Time
from tests.simulation.virtual_time import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

DECIDING: Final[Mapping[str, Callable[[], Handler]]] = {
    "admission": AdmissionHandler,
    "quota": QuotaHandler,
    "placement": PlacementHandler,
}
RESTART_SECONDS = 0.3
CRASHES_MAX = 20


class Beats:
    """A watchdog that never bites."""

    def beat(self) -> None:
        """Do nothing."""


class Service:
    """One process of a service, kept up by its supervisor."""

    def __init__(self, world: World, name: str, slot: str) -> None:
        self.world, self.name, self.slot = world, name, slot
        self.process = Process(f"{name} {slot}")
        self.time = Time()
        self._start()

    def _start(self) -> None:
        world, name = self.world, self.name
        database = world.databases[name]
        lease = MemoryLease(database, SHARD, self.slot)
        store = SimulatedStore(database, lease, world.armed)
        log = structlog.get_logger(name)
        session = Session(
            source=name,
            lease=lease,
            store=store,
            publisher=SimulatedPublisher(world.log, name, world.armed),
            clock=self.time,
            log=log,
            failpoints=Failpoints(),
        )
        handler = self.handler = self._handler()
        subscription = MemorySubscription(world.log)
        self.loop = Loop(
            handler=handler,
            session=session,
            reader=database,
            seen=store.seen,
            subscription=subscription,
            clock=self.time,
            log=log,
            failpoints=Failpoints(),
            beats=Beats(),
            batch_messages_max=50,
        )
        if isinstance(handler, BinderHandler):
            handler.on_wake = subscription.wake
        self.task = asyncio.get_running_loop().create_task(
            self._live(), context=self.process.context
        )
        self.world.graves.append((self.task, self.loop, handler))

    def _handler(self) -> Handler:
        if self.name != "binder":
            return DECIDING[self.name]()
        seeds = self.world.armed.random
        watcher.Random = lambda: Random(seeds.random())  # type: ignore[assignment,attr-defined,misc]
        return BinderHandler(cluster=self.world.cluster, clock=self.time)

    async def _live(self) -> None:
        """Until it is stopped; the supervisor starts it again when it ends with an error."""
        try:
            await self.loop.run()
        except MusterError:
            pass
        except Exception:  # noqa: BLE001  # any bug is a finding
            self.world.crashes.append(traceback.format_exc(limit=-4))
        else:
            return
        if len(self.world.crashes) < CRASHES_MAX:
            await asyncio.sleep(RESTART_SECONDS)
            self._start()

    def kill(self) -> None:
        """As kill -9: nothing of it runs any more."""
        self.process.dead = True

    def again(self) -> None:
        """The supervisor starts it under the same slot."""
        self.process = Process(f"{self.name} {self.slot}")
        self._start()
