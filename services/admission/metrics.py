"""Metrics of admission."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

VERDICTS: Final = Counter("muster_admission_verdicts_total", "Submissions by outcome", ["outcome"])
DROPPED: Final = Counter(
    "muster_admission_commands_dropped_total", "Commands that were not forwarded", ["reason"]
)
PARKED: Final = Gauge(
    "muster_admission_parked_submissions", "Submissions that wait for facts under way"
)
FLEET: Final = Gauge("muster_admission_fleet_nodes", "Nodes that static fit judges by")
