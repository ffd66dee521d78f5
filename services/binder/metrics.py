"""Metrics of the binder; the loop's own are in `runtime.telemetry`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

FACTS: Final = Counter("muster_binder_facts_total", "Facts published about pods", ["fact"])
OPERATIONS: Final = Counter(
    "muster_binder_operations_total", "Operations by verb and status", ["verb", "status"]
)
LOST_REPLIES: Final = Counter("muster_binder_lost_replies_total", "Operations without an answer")
RELISTS: Final = Counter("muster_binder_lists_total", "Full lists of the cluster")
ORPHANS: Final = Counter("muster_binder_orphans_total", "Pods deleted, as no workload wants them")
ATTEMPTS: Final = Gauge("muster_binder_attempts", "Attempts that are not over")
REQUEST_SECONDS: Final = Histogram(
    "muster_binder_request_seconds",
    "Time of one batch of operations",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
