"""What was in the log when a life began: deadlines wait until it is read, the rest for its turn.

The fact that a workload ended in time may lie unread in the log while its time passes, and topics
come in no order; a process that acts by the clock first decides against what is known already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shared.ports.clock import Clock
from shared.ports.publisher import RawMessage

QUIET_SECONDS: Final = 10.0
"""Nothing came for so long: what is missing was removed from the log, or the broker is away."""

Place = tuple[str, int]


class CatchingUp:
    """Ends of (topic, partition) that were there and are not read yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[Place, int] = {}
        self._heard_seconds = 0.0

    def forget(self) -> None:
        """Another life begins."""
        self._ends = {}

    def expect(self, offsets: Mapping[Place, int], ends: Mapping[Place, int]) -> None:
        """What is read from `offsets` on goes to `ends` for now."""
        behind = {place: end for place, end in ends.items() if offsets.get(place, 0) < end}
        self._ends.update(behind)
        self._heard_seconds = self._clock.monotonic_seconds()

    def read(self, messages: Sequence[RawMessage]) -> None:
        """These have come."""
        if not messages or not self._ends:
            return
        self._heard_seconds = self._clock.monotonic_seconds()
        for one in messages:
            place = one.topic, one.partition
            if self._ends.get(place, one.offset + 2) <= one.offset + 1:
                del self._ends[place]

    @property
    def topics(self) -> set[str]:
        """Those of which more of it comes."""
        return set() if self.over else {topic for topic, _ in self._ends}

    @property
    def over(self) -> bool:
        """Whether all of it is read, or no more of it comes."""
        if self._ends and self._clock.monotonic_seconds() - self._heard_seconds > QUIET_SECONDS:
            self._ends = {}
        return not self._ends
