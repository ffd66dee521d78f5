"""The report of a replay: the fields that the issue of record asks for, and a table of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from operations.replay.tracker import Fate, Tracker


def report_of(tracker: Tracker, fleet_gpu_milli: int) -> dict[str, Any]:
    """Counts, latencies in ms by the times of the log, and the rate of placements."""
    fates = list(tracker.fates.values())
    placed = [fate for fate in fates if fate.placed]
    waits = sorted(fate.placed_at_ms - fate.submitted_at_ms for fate in placed)
    waiting = Counter(
        fate.reason or "Unknown"
        for fate in fates
        if fate.accepted and not fate.placed and not fate.ended and fate.settled
    )
    held = sum(fate.gpu_milli for fate in placed if not fate.ended)
    return {
        "submitted": len(fates),
        "accepted": sum(fate.accepted for fate in fates),
        "rejected": sum(fate.rejected for fate in fates),
        "placed": len(placed),
        "waiting": dict(sorted(waiting.items())),
        "lost": sum(not fate.settled and not fate.ended for fate in fates),
        "duplicated": sum(fate.duplicated for fate in fates),
        "allocated_percent": round(100 * held / fleet_gpu_milli, 2) if fleet_gpu_milli else 0.0,
        "submit_to_placed_p50_ms": percentile(waits, 50),
        "submit_to_placed_p99_ms": percentile(waits, 99),
        "workloads_per_second": _rate(placed),
    }


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The smallest value that `percent` of the values do not exceed; 0 of none."""
    if not ordered:
        return 0
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _rate(placed: Sequence[Fate]) -> float:
    """Placements per second, from the first submission to the last placement."""
    if not placed:
        return 0.0
    first = min(fate.submitted_at_ms for fate in placed)
    last = max(fate.placed_at_ms for fate in placed)
    return round(len(placed) * 1000 / max(last - first, 1), 1)


def lines_of(report: dict[str, Any]) -> list[str]:
    """The report for people."""
    width = max(map(len, report))
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines.append(f"{name:<{width}}  {sum(value.values())}")
            lines += [f"{'':<{width}}  {count:>6} {reason}" for reason, count in value.items()]
        else:
            lines.append(f"{name:<{width}}  {value}")
    return lines
