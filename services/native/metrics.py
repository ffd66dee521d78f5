"""Metrics of the native service; the loop's own are in `runtime.telemetry`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

PODS: Final = Gauge("muster_native_pods", "Pods that name Muster as their scheduler, not over.")
GROUPS: Final = Gauge("muster_native_groups", "Groups of them that were submitted.")
SUBMITTED: Final = Counter("muster_native_submitted_total", "Groups submitted as workloads.")
NOTICES: Final = Counter(
    "muster_native_notices_total",
    "What pods and PodGroups were told of why they wait, by code.",
    ["reason"],
)
INTERRUPTIONS: Final = Counter(
    "muster_native_interruptions_total", "Lists and watches that broke."
)
