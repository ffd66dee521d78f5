"""Whether work is idle, and for how long without a break: only what was seen counts (mission R6).

An agent reports the use of each GPU now and then. What a workload holds on one node gives a `Run`:
since when every report said less than the limit. A gang is idle as long as all of its nodes are.
Four rules protect work (docs/adr/0027): a report that is missing or unreadable is no idleness, and
after a gap the clock starts again; use for a moment counts as use for `HOLD_MS`, so nothing is
warned of at every pause; the clock starts when the workload runs, not when it is placed; one GPU
in use keeps the whole workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from shared.core.model.team_policy import IdlePolicy
from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value

HOLD_MS: Final = 60_000
"""So long after it was used a GPU counts as used."""
GAP_MS_MAX: Final = 180_000
"""Reports further apart than this say nothing about the time between them."""
REMIND_MS: Final = 60_000
"""How often idleness that may be released is told again, for readers that missed it."""
HeldShare = tuple[int, int]
"""(index of the GPU, its memory slices as a mask; 0 for a time-sliced share)."""
NO_INSTANCES: Final[Mapping[tuple[int, int], int]] = {}
FRESH_MS: Final = 120_000
"""Older evidence releases nothing: the work may have gone on since."""


class IdlenessLimits(Value, frozen=True, kw_only=True):
    """What holds for one workload: idle below `percent_below`; `release_ms` 0 is never."""

    percent_below: int
    warn_ms: int
    release_ms: int


class Run(Value, frozen=True, kw_only=True):
    """What the reports of one node say about the GPUs that a workload has there.

    Idle from `since_ms` to the last report at `until_ms`; in use while `since_ms` is the later.
    """

    since_ms: int
    until_ms: int
    percent: int = 0
    """The most that was seen in the run."""


class Idleness(Value, frozen=True, kw_only=True):
    """A workload as a whole: seen idle from `since_ms` to `until_ms`."""

    since_ms: int
    until_ms: int
    percent: int = 0
    """The most that any of its GPUs was used, of what is held of it."""

    @property
    def idle_ms(self) -> int:
        """For how long; less than 0 while it is in use."""
        return self.until_ms - self.since_ms


class ToldIdleness(Value, frozen=True, kw_only=True):
    """The idleness that was told last: since when, and as of which report."""

    since_ms: int
    until_ms: int


class Word(StrEnum):
    """What there is to say after a report."""

    NOTHING = "nothing"
    NOTICED = "noticed"
    REMINDED = "reminded"
    ENDED = "ended"


def limits_of(policy: IdlePolicy | None, own_timeout_seconds: int | None) -> IdlenessLimits | None:
    """The limits of a workload: its team's policy, or its own time-out if that is shorter.

    None when there is neither. Its own time-out warns after half of it at the latest.
    """
    if policy is None and own_timeout_seconds is None:
        return None
    base = policy or IdlePolicy()
    warn, release = base.warn_after_seconds, base.release_after_seconds
    if own_timeout_seconds is not None and (not release or own_timeout_seconds < release):
        release = own_timeout_seconds
        warn = min(warn, release // 2)
    return IdlenessLimits(
        percent_below=base.utilisation_percent_below,
        warn_ms=warn * 1000,
        release_ms=release * 1000,
    )


def use_percent(
    shares: Iterable[HeldShare],
    held_milli: Mapping[int, int],
    told: Sequence[int],
    unread: Sequence[int],
    instances: Mapping[tuple[int, int], int] = NO_INSTANCES,
) -> int | None:
    """The most that one of `shares` is used, in per cent of what is held; None is unknown.

    `held_milli` counts all workloads on a GPU: of a shared one it is unknown which uses it, so use
    by one keeps all of them. A GPU that was not read, or not reported, makes the answer unknown.
    A MIG instance is judged by its own use, in `instances` by (GPU, slices), where that is told.
    """
    most = 0
    for gpu, mask in shares:
        own = instances.get((gpu, mask))
        if own is not None:
            most = max(most, own)
        elif gpu in unread or gpu >= len(told):
            return None
        else:
            most = max(most, told[gpu] * GPU_MILLI // max(held_milli[gpu], 1))
    return most


def observe(run: Run | None, at_ms: int, percent: int | None, percent_below: int) -> Run | None:
    """The run after one more report; a report that is old or says nothing changes nothing."""
    if percent is None or (run is not None and at_ms <= run.until_ms):
        return run
    if percent >= percent_below:
        return Run(since_ms=at_ms + HOLD_MS, until_ms=at_ms, percent=percent)
    if run is None or at_ms - run.until_ms > GAP_MS_MAX:
        return Run(since_ms=at_ms, until_ms=at_ms, percent=percent)
    most = percent if run.since_ms > run.until_ms else max(run.percent, percent)
    return Run(since_ms=run.since_ms, until_ms=at_ms, percent=most)


def whole(runs: Iterable[Run | None]) -> Idleness | None:
    """The idleness of all nodes together; None while one of them has said nothing."""
    known = []
    for run in runs:
        if run is None:
            return None
        known.append(run)
    return Idleness(
        since_ms=max(run.since_ms for run in known),
        until_ms=min(run.until_ms for run in known),
        percent=max(run.percent for run in known),
    )


def word_of(idle: Idleness, limits: IdlenessLimits | None, told: ToldIdleness | None) -> Word:
    """What to say now, given what was told last.

    Idleness that was told ends when it began anew: it was in use, or out of sight.
    """
    if told is not None and (limits is None or idle.since_ms != told.since_ms):
        return Word.ENDED
    if limits is None:
        return Word.NOTHING
    if told is None:
        return Word.NOTICED if idle.idle_ms >= limits.warn_ms else Word.NOTHING
    if not limits.release_ms or idle.idle_ms < limits.release_ms:
        return Word.NOTHING
    first = told.until_ms - told.since_ms < limits.release_ms
    late = idle.until_ms - told.until_ms >= REMIND_MS
    return Word.REMINDED if first or late else Word.NOTHING


def why_spared(
    idle: Idleness, limits: IdlenessLimits | None, *, protected: bool, now_ms: int
) -> str:
    """Why idle work keeps its GPUs; "" when it is to be released."""
    if limits is None or not limits.release_ms:
        return "never"
    if idle.idle_ms < limits.release_ms:
        return "too-soon"
    if now_ms - idle.until_ms > FRESH_MS:
        return "stale"
    return "protected" if protected else ""
