"""Wires what reads the devices to the log, and keeps reporting until told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import structlog

from services.node_agent.checks import Checks
from services.node_agent.device_metrics import device_metrics
from services.node_agent.device_owners import DeviceOwners
from services.node_agent.kernel_log import KernelLog
from services.node_agent.live_probe import LiveProbe
from services.node_agent.orders import obeying
from services.node_agent.probe import DescribedProbe, read_node
from services.node_agent.settings import AgentSettings
from services.node_agent.sources import open_source
from services.node_agent.xids import Xids
from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaPublisher, KafkaSubscription
from shared.adapters.kubernetes.pod_resources import PodResources
from shared.adapters.nvml import XidTold
from shared.core.health.events import WHOLE_NODE, HealthEventKind
from shared.core.telemetry.changes import HealthEvent
from shared.core.telemetry.thresholds import Thresholds
from shared.ports.clock import Clock
from shared.runtime.health import health_app, serve
from shared.runtime.orders import Orders
from shared.runtime.reporter import Pace, Reporter, ReportingProbe

UPTIME: Final = Path("/proc/uptime")
BOOTED_SECONDS: Final = 600.0
"""An agent that starts so soon after its machine tells that the machine was started."""
log = structlog.get_logger("node_agent")


async def run_agent() -> None:
    """Report one node until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings, clock = AgentSettings(), SystemClock()
    async with AsyncExitStack() as closing:
        agent = Agent(settings, clock, closing)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one) for one in await agent.begin()]
            await stop.wait()
            for task in running:
                task.cancel()


class Agent:
    """One node: what is read of it, and the tasks that report it."""

    def __init__(self, settings: AgentSettings, clock: Clock, closing: AsyncExitStack) -> None:
        self._settings = settings
        self._clock = clock
        self._closing = closing
        self._live: LiveProbe | None = None
        self._owners: DeviceOwners | None = None
        self._metrics: Callable[[], str] = str

    async def begin(self) -> list[Coroutine[Any, Any, None]]:
        """Open everything; what it returns runs until cancelled."""
        publisher = KafkaPublisher(
            self._settings.kafka, self._settings.topic_prefix, compress=True
        )
        self._closing.push_async_callback(publisher.close)
        probe = self._probe()
        reporter = Reporter(
            probes=[probe],
            publisher=publisher,
            clock=self._clock,
            pace=Pace(usage_seconds=self._settings.usage_seconds),
            cell=self._settings.cell,
            telling=self._settings.agent_reports,
        )
        await self._serve(reporter)
        if self._live is None:
            return [reporter.run()]
        subscription = KafkaSubscription(self._settings.kafka, self._settings.topic_prefix)
        self._closing.push_async_callback(subscription.close)
        seconds = self._settings.check_seconds
        checks = Checks(self._live, self._clock, self._settings.check_command, seconds)
        orders = Orders(obeying(self._live, self._clock, checks))
        return [
            checks.run(),
            self._live.watch(),
            self._report(self._live, reporter),
            orders.follow(subscription, self._settings.cell),
            *([] if self._owners is None else [self._owners.watch()]),
        ]

    def _probe(self) -> ReportingProbe:
        settings, path = self._settings, self._settings.node_description
        if settings.gpu_probe == "described":
            return DescribedProbe(path, clock=self._clock, cell=settings.cell)
        source = open_source(settings, self._clock, self._hear)
        self._closing.push_async_callback(source.close)
        self._live = LiveProbe(
            read_node(path, path.read_bytes()),
            source=source,
            clock=self._clock,
            seconds=settings.usage_seconds,
            cell=settings.cell,
            thresholds=Thresholds(settings.limits),
        )
        self._xids = Xids(self._live, self._clock)
        if settings.kubelet_socket is not None:
            pods = PodResources(settings.kubelet_socket)
            self._closing.push_async_callback(pods.close)
            self._owners = DeviceOwners(pods)
        label = settings.agent_hostname_label
        self._metrics = device_metrics(self._live, self._xids, self._owners, label)
        return self._live

    def _hear(self, told: XidTold) -> None:
        self._xids.hear_driver(told.uuid, told.type, told.data, told.instance)

    async def _report(self, live: LiveProbe, reporter: Reporter) -> None:
        """Nothing is told of a node before its devices are known: none is not the truth."""
        kernel_log = KernelLog(self._settings.kernel_log, self._xids.hear_kernel)
        kernel_log.open()
        self._closing.callback(kernel_log.close)
        live.changed = reporter.poke
        while not live.known:
            if live.problem:
                log.warning("no GPU is read", problem=live.problem)
            await asyncio.sleep(1.0)
        uptime = uptime_seconds(UPTIME)
        if uptime < BOOTED_SECONDS:
            booted = HealthEventKind.BOOTED
            live.tell([HealthEvent(gpu=WHOLE_NODE, kind=booted, code=int(uptime))])
        await reporter.run()

    async def _serve(self, reporter: Reporter) -> None:
        settings = self._settings
        if settings.http_port:
            app = health_app(lambda: reporter.ready, self._why_not, self._metrics)
            runner = await serve(app, settings.http_host, settings.http_port)
            self._closing.push_async_callback(runner.cleanup)

    def _why_not(self) -> str:
        return self._live.problem if self._live is not None else ""


def uptime_seconds(uptime: Path) -> float:
    """For how long the machine runs; infinite where that is not told."""
    try:
        return float(uptime.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return float("inf")
