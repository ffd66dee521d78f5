"""Wires a probe to the log and keeps reporting until told to stop."""

from __future__ import annotations

import asyncio
import signal

from services.node_agent.probe import DescribedProbe, read_node
from services.node_agent.settings import AgentSettings
from shared.adapters import nvml
from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaPublisher
from shared.ports.clock import Clock
from shared.runtime.health import health_app, serve
from shared.runtime.reporter import Pace, Reporter, ReportingProbe


def open_probe(settings: AgentSettings, clock: Clock) -> ReportingProbe:
    """What reads this node, as the settings say."""
    path = settings.node_description
    if settings.gpu_probe == "nvml":
        described = read_node(path, path.read_bytes())
        return nvml.open_probe(described, clock=clock, cell=settings.cell)
    return DescribedProbe(path, clock=clock, cell=settings.cell)


async def run_agent() -> None:
    """Report one node until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    settings, clock = AgentSettings(), SystemClock()
    publisher = KafkaPublisher(settings.kafka, settings.topic_prefix)
    reporter = Reporter(
        probes=[open_probe(settings, clock)],
        publisher=publisher,
        clock=clock,
        pace=Pace(usage_seconds=settings.usage_seconds),
        cell=settings.cell,
        telling=settings.agent_reports,
    )
    runner = None
    if settings.http_port:
        app = health_app(lambda: reporter.ready)
        runner = await serve(app, settings.http_host, settings.http_port)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(reporter.run())
            await stop.wait()
            running.cancel()
    finally:
        if runner is not None:
            await runner.cleanup()
        await publisher.close()
