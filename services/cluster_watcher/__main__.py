"""`python -m services.cluster_watcher`."""

from __future__ import annotations

from services.cluster_watcher.handler import WatcherHandler
from services.cluster_watcher.picture import ReadingPolicy
from services.cluster_watcher.settings import WatcherSettings
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.nodes.source import KubernetesNodes
from shared.adapters.kubernetes.nodes.tainting import KubernetesTaints
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.runtime.main import run_service
from shared.runtime.settings import Settings


def make(settings: Settings) -> WatcherHandler:
    """The handler of this process."""
    watcher = WatcherSettings()
    return WatcherHandler(
        source=KubernetesNodes(KubernetesSettings(), node_selector=watcher.node_selector),
        taints=KubernetesTaints(KubernetesSettings()) if watcher.taint_nodes else None,
        clock=SystemClock(),
        policy=ReadingPolicy(
            keys=watcher.label_keys,
            flavors=watcher.flavors,
            lost_after_ms=round(1000 * watcher.node_lost_seconds),
        ),
        cell=settings.cell,
    )


if __name__ == "__main__":
    run_service(make)
