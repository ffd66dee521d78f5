"""What a run under faults has shown: broken, too little load to say, only slow, or green.

Broken outweighs all else: what was lost is lost however little ran. What took too long has kept
its promises, and is told apart from what has not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tests.support.killing import checked, doubled, settle
from tests.support.system import Stage

MISSING: Final = "missing"
"""State of what was accepted and is not there (`killing.settle`)."""
LATE_TIMES: Final = 3
"""What is not over in its time is waited for so many times as long before it counts as stuck."""


class Verdict(IntEnum):
    """Exit code of a run."""

    GREEN = 0
    RED = 1
    TOO_LITTLE_LOAD = 2
    SLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastLoad:
    """Below it nothing that stayed whole says anything."""

    events_per_second: float = 50.0
    placements: int = 100


@dataclass(slots=True, kw_only=True)
class Findings:
    """What a run has shown."""

    not_over: Mapping[str, int] = field(default_factory=dict)
    """Accepted workloads that never ended, by state."""
    doubled: int = 0
    check: str = "clean"
    """What `muster-ops check` says."""
    slow: Sequence[str] = ()
    """What took longer than it may."""
    events_per_second: float = 0.0
    placements: int = 0

    def verdict(self, least: LeastLoad) -> Verdict:
        """The worst that is true of it."""
        if self.not_over or self.doubled or self.check != "clean":
            return Verdict.RED
        enough = self.events_per_second >= least.events_per_second
        if not enough or self.placements < least.placements:
            return Verdict.TOO_LITTLE_LOAD
        return Verdict.SLOW if self.slow else Verdict.GREEN


async def judged(
    stage: Stage, accepted: list[str], lasted_seconds: float, settle_seconds: float
) -> Findings:
    """Let the load finish, and ask all judges; `lasted_seconds`: how long it came in."""
    events = await stage.rows.fetchval("SELECT max(next_seq) FROM placement.watermark")
    left, late = await _settled(stage, accepted, settle_seconds)
    return Findings(
        not_over=left,
        slow=late,
        doubled=await doubled(stage),
        check=await asyncio.to_thread(checked, stage),
        events_per_second=round(events / lasted_seconds, 1),
        placements=await stage.rows.fetchval(
            "SELECT count(*) FROM placement.audit WHERE after = 'placed'"
        ),
    )


async def _settled(
    stage: Stage, accepted: list[str], seconds: float
) -> tuple[dict[str, int], list[str]]:
    """What is not over after all patience, by state, and what was over late, in words."""
    late = await settle(stage, accepted, seconds)
    if not late or MISSING in late:
        return late, []
    left = await settle(stage, accepted, LATE_TIMES * seconds)
    return left, [f"not over {seconds:g} s after the last fault: {late}"]
