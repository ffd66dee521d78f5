"""Metrics of the service preemption."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

PLANS: Final = Counter(
    "muster_preemption_plans_total",
    "Eviction plans by what became of them.",
    ["outcome"],
)
SPARED: Final = Counter(
    "muster_preemption_none_total",
    "Searches that ended without a plan, by what spared the victims.",
    ["obstacle"],
)
IDLE: Final = Counter(
    "muster_idle_releases_total",
    "Idle workloads that were looked at, by what became of them: released, or why they were not.",
    ["outcome"],
)
WAITING: Final = Gauge(
    "muster_preemption_waiting",
    "Workloads refused for lack of room or quota, for which others might be evicted.",
)
IN_FLIGHT: Final = Gauge(
    "muster_preemption_in_flight",
    "Plans proposed or accepted whose preemptor is not placed yet.",
)
