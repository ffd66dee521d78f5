"""Metrics of the cluster watcher; the loop's own are in `runtime.telemetry`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

LISTS: Final = Counter(
    "muster_cluster_watcher_lists_total", "Full lists of the API server", ["kind"]
)
INTERRUPTIONS: Final = Counter(
    "muster_cluster_watcher_interruptions_total", "Lists and watches that broke", ["kind"]
)
REPORTS: Final = Counter(
    "muster_cluster_watcher_reports_total", "Facts published about nodes", ["fact"]
)
REFUSED: Final = Counter(
    "muster_cluster_watcher_refused_nodes_total",
    "Nodes that were not published, as their objects contradict themselves",
)
REFUSED_OBSERVATIONS: Final = Counter(
    "muster_cluster_watcher_refused_observations_total",
    "What agents see of GPUs that contradicts the API server, once until it changes",
)
NODES: Final = Gauge(
    "muster_cluster_watcher_nodes", "Nodes by standing (ready, resting, lost)", ["standing"]
)
TAINTS: Final = Counter(
    "muster_cluster_watcher_taints_total",
    "Nodes whose taints were changed, or could not be (written, failed)",
    ["outcome"],
)
