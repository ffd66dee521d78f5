"""`python -m services.monitoring`."""

from __future__ import annotations

from prometheus_client import REGISTRY

from services.monitoring.gauges import Gauges
from services.monitoring.handler import MonitoringHandler
from services.monitoring.settings import MonitoringSettings
from shared.adapters.clock import SystemClock
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> MonitoringHandler:
    """The handler of this process, with its gauges on /metrics."""
    own = MonitoringSettings()
    handler = MonitoringHandler(
        cell=settings.cell,
        node_start_ms=own.node_start_seconds * 1_000,
        warm_nodes=own.warm_nodes,
    )
    REGISTRY.register(Gauges(lambda: handler.memory, SystemClock(), handler.team))
    return handler


if __name__ == "__main__":
    run_service(make)
