"""How long a workload will run: what its user says, else what his last two took.

Source of the second rule: Tsafrir, Etsion and Feitelson, Backfilling Using System-Generated
Predictions (TPDS'07): the mean of the user's last two is better than most of what users say.
Similar is what has the same team and name.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from shared.core.model import Workload, WorkloadKind

UNKNOWN_SECONDS: Final = 86_400
"""Taken for work of which nothing is known; who lasts longer is survived (core/timeline.py)."""
HISTORIES_MAX: Final = 50_000
"""Kept of (team, name), those that ended last."""
SERVICES: Final = frozenset({WorkloadKind.INFERENCE, WorkloadKind.NOTEBOOK})


class Estimates:
    """What is known of lengths. Seconds."""

    def __init__(self) -> None:
        self._lasted: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()

    def note(self, workload: Workload, seconds: int) -> None:
        """A workload ran so long, and ended well."""
        key = (workload.team, workload.spec.name)
        before = self._lasted.pop(key, ())
        self._lasted[key] = (*before[-1:], seconds)
        if len(self._lasted) > HISTORIES_MAX:
            self._lasted.popitem(last=False)

    def seconds(self, workload: Workload) -> int | None:
        """Its expected length; None for a service without limit that nobody may stop."""
        spec = workload.spec
        said = spec.expected_duration_seconds or spec.max_duration_seconds
        if said:
            return said
        lasted = self._lasted.get((workload.team, spec.name))
        if lasted:
            return max(sum(lasted) // len(lasted), 1)
        if spec.kind in SERVICES and not spec.preemptible:
            return None
        return UNKNOWN_SECONDS
