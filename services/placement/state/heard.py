"""When the binder last spoke of each attempt that holds devices, by workload.

Kept in that order, so that the one with the longest silence is found without looking at others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice, takewhile


class LastHeard:
    """See the module; times are Unix milliseconds."""

    def __init__(self) -> None:
        self._at_ms: OrderedDict[str, int] = OrderedDict()

    def restore(self, at_ms: Mapping[str, int]) -> None:
        """After a start: what is known of each from its row."""
        self._at_ms = OrderedDict(sorted(at_ms.items(), key=lambda one: one[1]))

    def note(self, workload_id: str, now_ms: int) -> None:
        """It was spoken of, or asked about, or begins."""
        self._at_ms[workload_id] = now_ms
        self._at_ms.move_to_end(workload_id)

    def forget(self, workload_id: str) -> None:
        """Its attempt holds nothing any more."""
        self._at_ms.pop(workload_id, None)

    @property
    def oldest_ms(self) -> int | None:
        """Since when the one with the longest silence is silent; None: there is none."""
        return next(iter(self._at_ms.values()), None)

    def silent_since(self, at_ms: int, count_max: int) -> list[str]:
        """Those that are silent since `at_ms` or longer, the longest first."""
        silent = takewhile(lambda one: one[1] <= at_ms, self._at_ms.items())
        return [workload_id for workload_id, _ in islice(silent, count_max)]
