"""`python -m services.binder`."""

from __future__ import annotations

from services.binder.handler import BinderHandler
from services.binder.settings import BinderSettings
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> BinderHandler:
    """The handler of this process."""
    binder = BinderSettings()
    cluster: SimulatedCluster | KubernetesCluster
    if binder.cluster == "kubernetes":
        cluster = KubernetesCluster(KubernetesSettings())
    else:
        cluster = SimulatedCluster(binder.cluster_url)
    return BinderHandler(
        cluster=cluster, clock=SystemClock(), cell=settings.cell, release=cluster.close
    )


if __name__ == "__main__":
    run_service(make)
