"""What `eta` answers: ranges, and on what they rest."""

from __future__ import annotations

from services.gateway.views import View
from shared.core.lifecycle import State


class RangeView(View, frozen=True, kw_only=True):
    """Half of the cases are over by `p50_ms`, nine of ten by `p90_ms`, Unix milliseconds."""

    p50_ms: int
    p90_ms: int
    basis: str
    """promise, queue and size, queue, expected ends; name, stated, kind and size."""
    samples: int
    """Cases that it rests on; 0 for somebody's word alone."""


class Eta(View, frozen=True, kw_only=True):
    """When a workload is likely to start and to end; null is over, or unknown."""

    id: str
    state: State
    at_ms: int
    start: RangeView | None
    end: RangeView | None
    message: str
