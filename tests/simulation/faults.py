"""Which faults happen when: a list made from the seed, of which any may be left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

SERVICES: Final = ("admission", "quota", "placement", "binder")
COMMIT: Final = ("commit_lost", "commit_executed", "commit_late", "commit_refused")
PUBLISH: Final = ("publish_half", "publish_late", "publish_twice")
KINDS: Final = (
    *("kill", "pause", "roll", "clock", *COMMIT, *PUBLISH),
    *("publish_away", "trim", "watch", "reply_lost", "node"),
)
FAULT_SECONDS: Final = 10.0
"""Faults begin within so many virtual seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; what `amount` (0 to 1) means depends on the kind."""

    number: int
    at_seconds: float
    kind: str
    service: str
    amount: float


def faults_of(seed: int, left_out: Collection[int] = ()) -> Sequence[Fault]:
    """The faults of a seed in order of time, without those with these numbers."""
    random = Random(f"faults {seed}")
    count = random.randint(6, 30)
    made = [
        Fault(
            number,
            random.uniform(0.5, FAULT_SECONDS),
            random.choice(KINDS),
            random.choice(SERVICES),
            random.random(),
        )
        for number in range(count)
    ]
    kept = [one for one in made if one.number not in left_out]
    return sorted(kept, key=lambda one: one.at_seconds)
