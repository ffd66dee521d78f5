"""What the end of a node cost: work that moved, GPU-hours lost, seconds until it ran elsewhere.

Lost is what victims of preemption are weighed by: the time since the last checkpoint, or since
the start of work that saves none, and that of its restart, times all GPUs of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.core.model.units import GPU_MILLI
from shared.core.preemption.eligibility.occupant import last_checkpoint_ms

ENDED: Final = frozenset({"succeeded", "failed", "cancelled"})
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A workload at one moment."""

    id: str
    team: str
    name: str
    state: str
    attempt: int
    gpu_milli: int
    """What quota counts for all of it."""
    nodes: frozenset[str]
    running_at_ms: int = 0
    """When its attempt ran; 0: it does not yet."""
    checkpoint_ms: int = 0
    """Between its checkpoints; 0: it saves none."""
    restart_ms: int = 0

    def lost_gpu_ms(self, at_ms: int) -> int:
        """GPU-milliseconds that go if it is stopped at a time; none where it does not run."""
        if self.state != "running" or not self.running_at_ms:
            return 0
        saved_ms = last_checkpoint_ms(self.running_at_ms, self.checkpoint_ms, at_ms)
        return self.gpu_milli * (max(at_ms - saved_ms, 0) + self.restart_ms) // GPU_MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one workload that had pods on the node."""

    before: Work
    after: Work | None
    lost_gpu_ms: int
    elsewhere_ms: int | None = None
    """After so long all of its pods ran on other nodes; None: they did not, or it has ended."""

    @property
    def ended(self) -> bool:
        """Whether it is over, so that it need not run elsewhere."""
        return self.after is None or self.after.state in ENDED

    @property
    def settled(self) -> bool:
        """Whether nothing is waited for."""
        return self.ended or self.elsewhere_ms is not None


def outcomes_of(
    node: str,
    before: Sequence[Work],
    after: Mapping[str, Work],
    struck_ms: int,
    now_ms: int,
) -> list[Outcome]:
    """What has become by `now_ms` of the work that was on a node when it went down."""
    return [
        Outcome(
            before=one,
            after=(found := after.get(one.id)),
            lost_gpu_ms=one.lost_gpu_ms(struck_ms),
            elsewhere_ms=_elsewhere_ms(node, one, found, struck_ms, now_ms),
        )
        for one in before
    ]


def _elsewhere_ms(
    node: str, before: Work, after: Work | None, struck_ms: int, now_ms: int
) -> int | None:
    """A gang that gave up its pods there goes on as it is: then the look at it counts."""
    if after is None or after.state != "running" or node in after.nodes:
        return None
    ran_ms = after.running_at_ms if after.attempt > before.attempt else now_ms
    return max(ran_ms - struck_ms, 0)


def report_of(node: str, outcomes: Sequence[Outcome], *, back: bool) -> dict[str, Any]:
    """The document of a Friday, for programs."""
    seconds = [one.elsewhere_ms / 1000 for one in outcomes if one.elsewhere_ms is not None]
    return {
        "node": node,
        "back": back,
        "workloads": len(outcomes),
        "moved": len(seconds),
        "ended": sum(one.ended for one in outcomes),
        "waiting": sum(not one.settled for one in outcomes),
        "gpu_hours_lost": _hours(sum(one.lost_gpu_ms for one in outcomes)),
        "seconds_until_elsewhere": round(max(seconds), 3) if seconds else None,
        "work": [_line(one) for one in outcomes],
    }


def _line(one: Outcome) -> dict[str, Any]:
    after = one.after
    return {
        "workload_id": one.before.id,
        "team": one.before.team,
        "name": one.before.name,
        "gpus": one.before.gpu_milli / GPU_MILLI,
        "gpu_hours_lost": _hours(one.lost_gpu_ms),
        "seconds_until_elsewhere": (
            None if one.elsewhere_ms is None else round(one.elsewhere_ms / 1000, 3)
        ),
        "state": after.state if after is not None else "",
        "nodes": sorted(after.nodes) if after is not None else [],
    }


def _hours(gpu_ms: int) -> float:
    return round(gpu_ms / HOUR_MS, 4)
