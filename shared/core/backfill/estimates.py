"""How long a workload will run: what its user says, else what its last two took.

Promises rest on `seconds`: users say too much rather than too little, and what ends early makes a
promise earlier. `likely_seconds` is for choices on which no promise rests
(core/backfill/spare_room.py): what the user says times the median of what its team's work took of
what was said of it. Source: Tsafrir, Etsion and Feitelson, Backfilling Using System-Generated
Predictions (TPDS'07): the mean of the user's last two is better than most of what users say.
Similar is what has the same team and name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from typing import Final

from shared.core.model.nouns import Workload, WorkloadKind, WorkloadSpec

UNKNOWN_SECONDS: Final = 86_400
"""Taken for work of which nothing is known; what lasts longer is survived (timeline.py)."""
HISTORIES_MAX: Final = 50_000
"""Kept of (team, name), those that ended last."""
SHARES_MAX: Final = 500
"""Ends kept of a team, to tell what its work takes of what is said of it."""
WHOLE: Final = 1_000
"""A share is counted in thousandths."""
SERVICES: Final = frozenset({WorkloadKind.INFERENCE, WorkloadKind.NOTEBOOK})


class DurationShares:
    """What the last work of a team took of what was said of it, in thousandths."""

    __slots__ = ("_last", "_ordered")

    def __init__(self) -> None:
        self._last: deque[int] = deque()
        self._ordered: list[int] = []

    def note(self, share: int) -> None:
        """One more; the oldest of too many is forgotten. O(log n) steps and a short move."""
        self._last.append(share)
        insort(self._ordered, share)
        if len(self._last) > SHARES_MAX:
            del self._ordered[bisect_left(self._ordered, self._last.popleft())]

    def median(self) -> int:
        """Half of them took no more."""
        return self._ordered[len(self._ordered) // 2]


class Estimates:
    """What is known of lengths. Seconds."""

    def __init__(self) -> None:
        self._lasted: OrderedDict[tuple[str, str], tuple[int, ...]] = OrderedDict()
        self._shares: dict[str, DurationShares] = {}

    def note(self, workload: Workload, seconds: int) -> None:
        """A workload ran so long, and ended well."""
        key = (workload.team, workload.spec.name)
        before = self._lasted.pop(key, ())
        self._lasted[key] = (*before[-1:], seconds)
        if len(self._lasted) > HISTORIES_MAX:
            self._lasted.popitem(last=False)
        said = said_seconds(workload.spec)
        if said:
            share = min(WHOLE * seconds // said, 2 * WHOLE)
            self._shares.setdefault(workload.team, DurationShares()).note(share)

    def seconds(self, workload: Workload) -> int | None:
        """Its expected length; None for a service without limit that nothing may stop."""
        spec = workload.spec
        said = said_seconds(workload.spec)
        if said:
            return said
        lasted = self._lasted.get((workload.team, spec.name))
        if lasted:
            return max(sum(lasted) // len(lasted), 1)
        if spec.kind in SERVICES and not spec.preemptible:
            return None
        return UNKNOWN_SECONDS

    def likely_seconds(self, workload: Workload) -> int | None:
        """What it will take by its team's history; O(1)."""
        seconds, shares = self.seconds(workload), self._shares.get(workload.team)
        if shares is None or seconds is None or not said_seconds(workload.spec):
            return seconds
        return max(seconds * shares.median() // WHOLE, 1)


def said_seconds(spec: WorkloadSpec) -> int | None:
    """What its user says; None: nothing."""
    return spec.expected_duration_seconds or spec.max_duration_seconds
