"""When work is likely to start and to end: a range, and on what it rests (mission X2).

A range is two quantiles of what like work took: half of it was over by `p50_ms`, nine tenths by
`p90_ms`. Of what has lasted for a while already only the samples that lasted longer count, so an
answer never lies in the past. Too few samples say nothing. Nearest ranks, as in Hyndman and Fan
(1996), definition 1: every answer is one that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shared.core.model.value import Value

PROMISE: Final = "promise"
QUEUE_AND_SIZE: Final = "queue and size"
QUEUE: Final = "queue"
EXPECTED_ENDS: Final = "expected ends"
BASES_OF_STARTS: Final = (PROMISE, QUEUE_AND_SIZE, QUEUE, EXPECTED_ENDS)
SAMPLES_MIN: Final = 5
SAMPLES_MAX: Final = 200
"""The last so many of a kind are looked at."""
_SIZES_MILLI: Final = (0, 999, 1_000, 8_000, 64_000)
"""Upper bounds of the classes of like size: no GPU, a share, one, a node's, a rack's, more."""


class Range(Value, frozen=True, kw_only=True):
    """From now on, in ms; `samples` is how many seen ones it rests on, 0 for a stated value."""

    p50_ms: int
    p90_ms: int
    basis: str
    samples: int = 0


def size_class(gpu_milli: int) -> int:
    """Workloads of one class are alike in size, 0 to 5."""
    return sum(gpu_milli > bound for bound in _SIZES_MILLI)


def quantiles(samples_ms: Iterable[int], passed_ms: int = 0) -> tuple[int, int, int] | None:
    """(p50, p90, count) of what is left after `passed_ms`, of the samples that lasted longer.

    None for fewer than `SAMPLES_MIN` of them.
    """
    left = sorted(samples_ms)
    if passed_ms:
        left = [one - passed_ms for one in left if one > passed_ms]
    if len(left) < SAMPLES_MIN:
        return None
    return left[_rank(len(left), 50)], left[_rank(len(left), 90)], len(left)


def _rank(count: int, percent: int) -> int:
    return -(-count * percent // 100) - 1


def left_of(samples_ms: Iterable[int], passed_ms: int, basis: str) -> Range | None:
    """The range of what is left, or None when too little is known."""
    found = quantiles(samples_ms, passed_ms)
    if found is None:
        return None
    p50_ms, p90_ms, count = found
    return Range(p50_ms=p50_ms, p90_ms=p90_ms, basis=basis, samples=count)


def stated(expected_ms: int | None, limit_ms: int | None, passed_ms: int) -> Range | None:
    """The range that the user's own words give, or None when they are over or were never said.

    Of what has lasted longer than expected, only the limit is known.
    """
    expected = expected_ms or 0
    latest = max(limit_ms or 0, expected)
    if latest <= passed_ms:
        return None
    likely = expected if expected > passed_ms else latest
    return Range(p50_ms=likely - passed_ms, p90_ms=latest - passed_ms, basis="stated")


def promised(left_ms: int, history: Range | None) -> Range:
    """The range of a promised start: the promise, and what like work had to wait beyond it."""
    start_ms = max(left_ms, 0)
    latest_ms = max(start_ms, history.p90_ms) if history is not None else start_ms
    samples = history.samples if history is not None else 0
    return Range(p50_ms=start_ms, p90_ms=latest_ms, basis=PROMISE, samples=samples)


def by_ends(ends: Iterable[tuple[int, int]], wanted_gpu_milli: int, now_ms: int) -> Range | None:
    """The range by which those that run have given back enough, in order of their expected ends.

    `ends` are (time, milli-GPU). The late end is had if all last twice as long from now on, as
    backfill takes it of work past its estimate (docs/adr/0025). None when all of it is too little.
    """
    given_milli = count = 0
    for end_ms, gpu_milli in ends:
        given_milli, count = given_milli + gpu_milli, count + 1
        if given_milli >= wanted_gpu_milli:
            left_ms = max(end_ms - now_ms, 0)
            return Range(p50_ms=left_ms, p90_ms=2 * left_ms, basis=EXPECTED_ENDS, samples=count)
    return None


def missed(p50_ms: int, p90_ms: int, happened_ms: int) -> tuple[int, str]:
    """(how far off the middle it happened in ms, in which part of the range: p50, p90 or later).

    All three are Unix milliseconds. Where one moment was told, both quantiles are that moment.
    """
    within = "p50" if happened_ms <= p50_ms else "p90" if happened_ms <= p90_ms else "later"
    return abs(happened_ms - p50_ms), within


def after(start: Range, length: Range) -> Range:
    """What begins by `start` and lasts for `length`: late starts are taken to last long."""
    return Range(
        p50_ms=start.p50_ms + length.p50_ms,
        p90_ms=start.p90_ms + length.p90_ms,
        basis=f"{start.basis}, then {length.basis}",
        samples=min(start.samples, length.samples),
    )
