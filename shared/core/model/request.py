"""What placement is asked: see `core.placement.place`, which answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.core.model.nouns import Workload
from shared.core.model.units import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """A workload that may be tried, and how far: see the fields."""

    workload: Workload
    flavors: tuple[str, ...]
    """Permitted flavors, in the order to try them."""
    headroom: Mapping[str, Resources]
    """Quota still free in each flavor: the charge must fit; a flavor not named has none."""
    pins: tuple[int, ...] = ()
    """Promises with nodes that it may use (core/backfill/backfill.py)."""
    owned_only: bool = False
    """Its queue may not borrow for it: the preemption service reads this, `headroom` says it to
    placement."""
    asked_before: bool = False
    """It was refused before: refused again, it is no new demand (scoring/learned_counts.py)."""
