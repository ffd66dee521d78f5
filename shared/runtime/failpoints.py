"""Named points at which a test can kill, delay or fail the process; free when unset.

`MUSTER_FAILPOINTS="unit.before_commit:0.01:kill,relay.acked:1:sleep=10"`. The random numbers come
from the seed in the settings, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.ports.errors import Transient


@dataclass(frozen=True, slots=True)
class Failpoint:
    """What happens at one point: `action` is kill, raise or sleep=SECONDS."""

    probability: float
    action: str


@dataclass(slots=True)
class Failpoints:
    """All points that are set; `reach` does nothing for the others."""

    points: Mapping[str, Failpoint] = field(default_factory=dict)
    generator: random.Random = field(default_factory=lambda: random.Random(0))

    @classmethod
    def parse(cls, text: str, seed: int) -> Failpoints:
        """From the form `name:probability:action,...`; raises ValueError with the bad part."""
        points = {}
        for part in filter(None, text.split(",")):
            name, _, rest = part.partition(":")
            probability, _, action = rest.partition(":")
            if not action.startswith(("kill", "raise", "sleep=")):
                raise ValueError(f"failpoint {part!r}: want name:probability:kill|raise|sleep=S")
            points[name] = Failpoint(float(probability), action)
        return cls(points, random.Random(seed))  # not for secrets

    async def reach(self, name: str) -> None:
        """Do what is set for `name`, with its probability."""
        point = self.points.get(name) if self.points else None
        if point is None or self.generator.random() >= point.probability:
            return
        if point.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if point.action == "raise":
            raise Transient(f"failpoint {name}")
        await asyncio.sleep(float(point.action.removeprefix("sleep=")))
