"""What `eta` answers: ranges, and on what they rest."""

from __future__ import annotations

from services.gateway.http.views import View
from shared.core.model.lifecycle import State


class RangeView(View, frozen=True, kw_only=True):
    """Half of the cases are over by `p50_ms`, nine of ten by `p90_ms`, Unix milliseconds."""

    p50_ms: int
    """Half of the cases are over by then, Unix milliseconds."""
    p90_ms: int
    """Nine of ten cases are over by then, Unix milliseconds."""
    basis: str
    """promise, queue and size, queue, expected ends; name, stated, kind and size."""
    samples: int
    """Cases that it rests on; 0 where it rests on a stated value alone."""


class EarliestView(View, frozen=True, kw_only=True):
    """A moment before which it hardly starts; nothing says how long after it."""

    at_ms: int
    """Unix milliseconds."""
    basis: str
    """promise, queue and size, queue, expected ends."""
    samples: int
    """Cases that it rests on; 0 for a promise alone."""


class Eta(View, frozen=True, kw_only=True):
    """When a workload is likely to start and to end; null is over, or unknown."""

    id: str
    state: State
    at_ms: int
    """When it was reckoned, Unix milliseconds."""
    start: RangeView | None
    """When it is likely to start; null: it has started, or nothing is known."""
    earliest_start: EarliestView | None
    """When it starts at the earliest, where no range can be told; null: there is a range, or
    nothing is known."""
    end: RangeView | None
    """When it is likely to end; null: it has ended, or nothing is known."""
    message: str
