"""How good what is said of starts is: each workload is foretold when it is queued, then scored.

The range is that of `muster eta`: what like work of its queue and size waited (`core/eta.py`), or
the start that placement promised it. What is known begins with the process, as counters do.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from services.monitoring.memory import Seen
from shared.core.charges import workload_resources
from shared.core.eta import SAMPLES_MAX, quantiles, size_class
from shared.events.workloads import PlacementRefused, WorkloadPlaced, WorkloadQueued

KINDS_MAX: Final = 10_000
"""(queue, size) of which waits are kept, those that were used last."""
AGED: Final = 50
"""So many starts after which the range of a kind is worked out anew."""


@dataclass(frozen=True, slots=True)
class Score:
    """A start against what was foretold: how far off, and where in the range it fell."""

    basis: str
    error_ms: int
    within: str


@dataclass(slots=True)
class _Kind:
    waits_ms: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))
    range_ms: tuple[int, int] | None = None
    since: int = 0


class Scores:
    """Waits by queue and size, and what they foretell."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[str, int], _Kind] = OrderedDict()

    def queued(self, one: Seen, fact: WorkloadQueued) -> None:
        """Foretell its wait."""
        one.size = size_class(workload_resources(fact.workload.spec).gpu_milli)
        known = self._kinds.get((one.queue, one.size))
        if known is not None and known.range_ms is not None:
            one.foretold_ms = known.range_ms

    def refused(self, one: Seen, fact: PlacementRefused) -> None:
        """Keep the first start that it was promised."""
        promised_ms = fact.evidence.get("promised_start_ms", 0)
        if promised_ms and not one.promised_ms:
            one.promised_ms = promised_ms

    def placed(self, one: Seen, fact: WorkloadPlaced) -> Iterator[Score]:
        """Score what was said of a first start, and learn from it."""
        if fact.attempt != 1 or not one.queued:
            return
        wait_ms = max(fact.placed_at_ms - fact.submitted_at_ms, 0)
        if one.foretold_ms is not None:
            p50_ms, p90_ms = one.foretold_ms
            within = "p50" if wait_ms <= p50_ms else "p90" if wait_ms <= p90_ms else "later"
            yield Score("history", abs(wait_ms - p50_ms), within)
        if one.promised_ms:
            late_ms = fact.placed_at_ms - one.promised_ms
            yield Score("promise", abs(late_ms), "p50" if late_ms <= 0 else "later")
        self._learn((one.queue, one.size), wait_ms)

    def _learn(self, key: tuple[str, int], wait_ms: int) -> None:
        kind = self._kinds.pop(key, None) or _Kind()
        self._kinds[key] = kind
        if len(self._kinds) > KINDS_MAX:
            self._kinds.popitem(last=False)
        kind.waits_ms.append(wait_ms)
        kind.since += 1
        if kind.range_ms is None or kind.since >= AGED:
            found = quantiles(kind.waits_ms)
            kind.range_ms, kind.since = found and found[:2], 0
