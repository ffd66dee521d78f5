"""Which MIG profiles a flavor is asked for, learned from the requests in bounded counters.

As core/mix.py does for whole GPUs and shares: every instance counts once, old ones fade, and a
profile that is refused again and again counts once until one of it is placed. The weights in force
change only now and then, so that a decision does not depend on the request just before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TOTAL_MAX: Final = 16_384
"""Instances remembered at most; then the older ones weigh half."""
LEARNED_MIN: Final = 256
"""Instances before there is a mix to speak of; until then all profiles weigh alike."""
REFRESH_MAX: Final = 4096
"""Instances after which the weights in force are replaced at the latest."""


class ProfileMix:
    """Counters by name of a profile. `version` changes when the weights in force do."""

    def __init__(self) -> None:
        self.version = 0
        """0 while nothing is known."""
        self._counts: dict[str, int] = {}
        self._in_force: Mapping[str, int] = {}
        self._noted = 0
        self._refresh_at = LEARNED_MIN
        self._refused: set[str] = set()

    def note(self, profile: str, instances: int, *, placed: bool) -> bool:
        """Count what one request asks for; false when it was counted before."""
        if placed:
            self._refused.discard(profile)
        elif profile in self._refused:
            return False
        else:
            self._refused.add(profile)
        self._counts[profile] = self._counts.get(profile, 0) + instances
        self._noted += instances
        if sum(self._counts.values()) >= TOTAL_MAX:
            self._counts = {name: count // 2 for name, count in self._counts.items()}
        if self._noted >= self._refresh_at:
            self._refresh_at = self._noted + min(self._noted, REFRESH_MAX)
            self._in_force = dict(self._counts)
            self.version += 1
        return True

    def weight(self, profile: str) -> int:
        """How often `profile` was asked for lately."""
        return self._in_force.get(profile, 0)
