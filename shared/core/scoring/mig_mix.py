"""Which MIG profiles a flavor is asked for (core/scoring/learned_counts.py).

The weights in force change only now and then, so that a decision does not depend on the request
just before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.scoring.learned_counts import LearnedCounts

LEARNED_MIN: Final = 256
"""Instances before there is a mix to speak of; until then all profiles weigh alike."""


class ProfileMix:
    """Counters by name of a profile. `version` changes when the weights in force do."""

    def __init__(self) -> None:
        self.version = 0
        """0 while nothing is known."""
        self._instances = LearnedCounts[str](LEARNED_MIN)
        self._in_force: Mapping[str, int] = {}

    def note(self, profile: str, instances: int, *, placed: bool) -> bool:
        """Count what one request asks for; false when it was counted before."""
        counted = self._instances.note(profile, instances, placed=placed)
        if self._instances.version != self.version:
            self.version = self._instances.version
            self._in_force = dict(self._instances.counts)
        return counted

    def weight(self, profile: str) -> int:
        """How often `profile` was asked for lately."""
        return self._in_force.get(profile, 0)
