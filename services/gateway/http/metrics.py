"""Metrics of the gateway; labels are bounded, and never names of users or workloads."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from services.gateway.http.connections import Closed
from shared.core.backfill.eta import BASES_OF_STARTS

REQUESTS: Final = Counter(
    "muster_http_requests_total", "Requests answered, by route and status.", ["route", "status"]
)
REQUEST_SECONDS: Final = Histogram(
    "muster_http_request_seconds",
    "Time from the head of a request to its answer; streams are not counted.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
WAITING: Final = Gauge(
    "muster_http_waiting_requests", "Submissions and commands that wait for their commit."
)
STREAMS: Final = Gauge("muster_http_streams", "Open event streams.")
CONNECTIONS: Final = Gauge("muster_http_connections", "Open connections.")
CONNECTIONS_CLOSED: Final = Counter(
    "muster_http_connections_closed_total",
    "Connections refused or closed by the gateway, by reason: full (all have a request in hand),"
    " peer-share, idle (for a new one), slow-head, slow-reader.",
    ["reason"],
)
for _reason in Closed:
    CONNECTIONS_CLOSED.labels(_reason.value)
READ_WAIT_SECONDS: Final = Histogram(
    "muster_http_read_wait_seconds",
    "Time that a read waited for tokens of its key and team, and for a place among its team's.",
    buckets=(0.001, 0.01, 0.1, 0.25, 0.5, 1, 2, 5),
)
READS_REFUSED: Final = Counter(
    "muster_http_reads_refused_total",
    "Reads answered with 429, by the limit: key or team (tokens), in-hand (reads at once), waiting"
    " (reads that wait).",
    ["limit"],
)
for _limit in ("key", "team", "in-hand", "waiting"):
    READS_REFUSED.labels(_limit)
SAVING_DOLLARS: Final = Gauge(
    "muster_team_rightsize_saving_dollars",
    "Dollars of the last 30 days that smaller forms of the work of a team would have saved; the"
    " 200 teams with the most.",
    ["team"],
)
ETA_ERROR_SECONDS: Final = Histogram(
    "muster_eta_error_seconds",
    "First starts against the first p50, promise or earliest start that was told, by its basis.",
    ["basis"],
    buckets=(1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400),
)
ETA_STARTS: Final = Counter(
    "muster_eta_starts_total",
    "First starts by where in the told range they fell: p50 (also before what was told as the"
    " earliest), p90 or later.",
    ["basis", "within"],
)
for _basis in BASES_OF_STARTS:
    ETA_ERROR_SECONDS.labels(_basis)
GROUP_ITEMS: Final = Histogram(
    "muster_http_group_items",
    "Submissions and commands made durable together.",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
)
