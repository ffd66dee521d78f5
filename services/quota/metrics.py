"""Metrics of quota."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

DECISIONS: Final = Counter("muster_quota_decisions_total", "Decisions by kind", ["kind"])
OPEN: Final = Gauge("muster_quota_open_nominations", "Nominations that are open")
ALIVE: Final = Gauge("muster_quota_workloads", "Workloads that wait, are tried or run")
REFUSED_DOCUMENTS: Final = Counter(
    "muster_quota_refused_documents_total", "Documents of the organisation that made no sense"
)
