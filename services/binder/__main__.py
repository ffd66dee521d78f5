"""`python -m services.binder`."""

from __future__ import annotations

from services.binder.handler import BinderHandler
from services.binder.settings import BinderSettings
from shared.adapters.clock import SystemClock
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> BinderHandler:
    """The handler of this process."""
    cluster = SimulatedCluster(BinderSettings().cluster_url)
    return BinderHandler(
        cluster=cluster, clock=SystemClock(), cell=settings.cell, release=cluster.close
    )


if __name__ == "__main__":
    run_service(make)
