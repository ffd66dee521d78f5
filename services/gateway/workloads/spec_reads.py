"""The specs of workloads that a command names, as checks before it is taken read them."""

from __future__ import annotations

from typing import Final

ERRORS_MAX: Final = 20
"""Workloads that one answer names."""
SPECS: Final = (
    "SELECT w.id, w.team, coalesce(s.spec, a.spec) AS spec FROM gateway.workload w"
    " LEFT JOIN gateway.workload_spec s ON s.id = w.id"
    " LEFT JOIN gateway.accepted_request a ON a.workload_id = w.id WHERE w.id = ANY($1)"
    " ORDER BY w.submitted_at_ms, w.id"
)
"""$1: their ids. A spec is null as long as the facts that brought its workload were not read."""


def not_read_yet(workload_id: str) -> str:
    """What is told of a workload with a null spec."""
    return f"{workload_id} was taken a moment ago and is not read yet; ask again"
