"""Counters and histograms of what happened, counted from facts after they were committed.

Labels are bounded: teams beyond a number are called "other", and no workload has a
label. They start at zero with the process, as Prometheus expects; gauges (`gauges/`) and the
cost ledger do not.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from shared.core.health.trends import Trend

WAIT_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5, 15, 60, 300, 1800, 7200, 86_400)
START_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

QUEUE_WAIT_SECONDS: Final = Histogram(
    "muster_queue_wait_seconds",
    "From submission to the first placement.",
    ["team"],
    buckets=WAIT_BUCKETS,
)
START_SECONDS: Final = Histogram(
    "muster_start_seconds", "From placed to running.", ["flavor"], buckets=START_BUCKETS
)
SUBMISSIONS: Final = Counter(
    "muster_submissions_total", "Submissions that admission answered.", ["team", "answer"]
)
REFUSALS: Final = Counter(
    "muster_refusals_total", "New reasons why a workload waits.", ["by", "reason"]
)
EVICTIONS: Final = Counter("muster_evictions_total", "Attempts that were stopped.", ["reason"])
PLACEMENTS: Final = Counter("muster_placements_total", "Attempts that got devices.", ["flavor"])
TRENDS: Final = Counter(
    "muster_trends_total",
    "Slow changes that were found on GPUs; leak: used memory rises; heat: hotter at equal power;"
    " replay: PCIe transfers are repeated; straggler: slower than its gang.",
    ["trend"],
)
for _trend in Trend:
    TRENDS.labels(_trend.value)  # so that the first one is an increase
HEALTH_STEPS: Final = Counter(
    "muster_health_steps_total",
    "Steps of GPUs on the ladder of health; done is false where they were only told.",
    ["before", "after", "rule", "done"],
)
REPORTS_REFUSED: Final = Counter(
    "muster_agent_reports_refused_total",
    "Reports of use that say what cannot be; they count for nothing.",
    ["node", "field"],
)
OUTCOMES: Final = Counter("muster_outcomes_total", "Workloads that are over.", ["team", "state"])
