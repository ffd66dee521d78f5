"""`python -m shared.simulator.fleet`: publishes node and usage facts of a whole fleet."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping

import aiohttp
import uvloop

from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaPublisher, KafkaSubscription
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.events.nodes import CheckGpu, ReconfigureGpu
from shared.ports.clock import Clock
from shared.ports.errors import Transient
from shared.runtime.health import serve
from shared.runtime.orders import AgentCommand, Orders
from shared.runtime.reporter import Pace, Reporter
from shared.simulator.fleet.files import read_fleet
from shared.simulator.fleet.occupancy import occupancy
from shared.simulator.fleet.routes import FleetRoutes
from shared.simulator.fleet.settings import FleetSettings
from shared.simulator.machine import CHECK_SECONDS, Machine


class ClusterSide:
    """The fleet's view of the simulated cluster: what runs where, and nodes that come and go."""

    def __init__(self, url: str, machines: Mapping[str, Machine], seconds: float) -> None:
        self.use: dict[str, int] = {}
        """How much of their GPUs some workloads use, in per cent."""
        self._url = url
        self._machines = machines
        self._seconds = seconds

    async def follow(self) -> None:
        """Look every few seconds at what runs where; without a cluster nothing ever does."""
        if not self._url:
            return
        cluster = SimulatedCluster(self._url)
        try:
            while True:
                try:
                    nodes = occupancy((await cluster.list_pods())[0], self.use)
                    for name, machine in self._machines.items():
                        machine.occupy(nodes.get(name, {}))
                except Transient as error:
                    sys.stderr.write(f"fleet: {error}\n")
                await asyncio.sleep(self._seconds)
        finally:
            await cluster.close()

    async def node_changed(self, name: str, ready: bool) -> None:  # noqa: FBT001  # a callback
        """Take the node down, or bring it back, in the cluster too."""
        if self._url:
            action = "up" if ready else "down"
            time_out = aiohttp.ClientTimeout(total=5)
            async with aiohttp.ClientSession(self._url, timeout=time_out) as session:
                answer = await session.post(f"/v1/nodes/{name}/{action}")
                answer.raise_for_status()


class Obedience:
    """The machines carry out commands; checks of GPUs take their time, side by side."""

    def __init__(
        self, machines: Mapping[str, Machine], clock: Clock, poke: Callable[[], None]
    ) -> None:
        self._machines, self._clock, self._poke = machines, clock, poke
        self._checks: set[asyncio.Task[None]] = set()

    async def obey(self, order: AgentCommand) -> None:
        """Carry out a command to one of the machines."""
        machine = self._machines.get(order.node)
        if machine is None:
            return
        if isinstance(order, ReconfigureGpu):
            if machine.obey(order, self._clock.now_ms()):
                self._poke()
        else:
            task = asyncio.create_task(self._check(machine, order))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    def stop(self) -> None:
        """Checks under way are given up."""
        for task in tuple(self._checks):
            task.cancel()

    async def _check(self, machine: Machine, order: CheckGpu) -> None:
        await asyncio.sleep(CHECK_SECONDS)
        if machine.check(order, self._clock.now_ms()):
            self._poke()


async def main() -> None:
    """Report until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings, clock = FleetSettings(), SystemClock()
    nodes = read_fleet(settings.fleet_file, settings.fleet_nodes, settings.fleet_seed)
    now_ms = clock.now_ms()
    machines = {
        node.name: Machine(node, now_ms=now_ms, seed=settings.fleet_seed, cell=settings.cell)
        for node in nodes
    }
    publisher = KafkaPublisher(settings.kafka, settings.topic_prefix, compress=True)
    pace = Pace(
        usage_seconds=settings.fleet_usage_seconds,
        usage_messages_per_second_max=settings.fleet_usage_rate,
    )
    reporter = Reporter(
        probes=list(machines.values()),
        publisher=publisher,
        clock=clock,
        pace=pace,
        cell=settings.cell,
        mute=lambda name: machines[name].is_mute(clock.now_ms()),
    )
    cluster = ClusterSide(settings.cluster_url, machines, settings.fleet_follow_seconds)
    routes = FleetRoutes(
        machines,
        clock=clock,
        poke=reporter.poke,
        ready=lambda: reporter.ready,
        node_changed=cluster.node_changed,
        use=cluster.use,
    )

    obedience = Obedience(machines, clock, reporter.poke)
    orders = Orders(obedience.obey)
    subscription = KafkaSubscription(settings.kafka, settings.topic_prefix)
    runner = await serve(routes.application(), settings.http_host, settings.http_port)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(reporter.run()),
                tasks.create_task(cluster.follow()),
                tasks.create_task(orders.follow(subscription, settings.cell)),
            ]
            await stop.wait()
            for task in running:
                task.cancel()
    finally:
        obedience.stop()
        await runner.cleanup()
        await subscription.close()
        await publisher.close()


if __name__ == "__main__":
    uvloop.run(main())
