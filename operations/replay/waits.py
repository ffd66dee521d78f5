"""The report of a scaled replay: what became of it, waits by size, and how much was used. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from operations.replay.report import percentile
from shared.core.model.units import GPU_MILLI

Json = Mapping[str, Any]
CLASSES: Final = ((1, "1 GPU"), (7, "2-7 GPUs"), (63, "8-63 GPUs"), (1 << 62, "64 GPUs and more"))
"""Largest number of GPUs of each class."""
DONE: Final = frozenset({"succeeded", "failed", "cancelled"})
RUNNING: Final = frozenset({"placed", "bound", "running", "evicting", "cancelling"})


def report_of(workloads: Sequence[Json], fleet_gpu_milli: int) -> dict[str, Any]:
    """Counts, waits in ms from submission to the last placement by class, and utilisation."""
    states = Counter(one["state"] for one in workloads)
    waits: dict[str, list[int]] = {name: [] for _, name in CLASSES}
    for one in workloads:
        if one["placed_at_ms"]:
            waits[class_of(one)].append(one["placed_at_ms"] - one["submitted_at_ms"])
    return {
        "submitted": len(workloads),
        "rejected": states["rejected"],
        "waiting": states["queued"] + states["held"] + states["received"],
        "running": sum(states[one] for one in RUNNING),
        "done": sum(states[one] for one in DONE),
        "reasons": dict(
            Counter(one["reason"] or "Pending" for one in workloads if one["state"] == "queued")
        ),
        "wait_ms": {name: _spread(sorted(each)) for name, each in waits.items() if each},
        "utilisation_percent": utilisation(workloads, fleet_gpu_milli),
    }


def class_of(one: Json) -> str:
    """The class of its size."""
    gpus = (one["gpu_milli"] or 0) / GPU_MILLI
    return next(name for most, name in CLASSES if gpus <= most)


def utilisation(workloads: Sequence[Json], fleet_gpu_milli: int) -> float:
    """GPU time that ended workloads held of the fleet's, from first submission to last end."""
    ended = [one for one in workloads if one["state"] in DONE and one["placed_at_ms"]]
    if not ended or not fleet_gpu_milli:
        return 0.0
    first = min(one["submitted_at_ms"] for one in workloads)
    last = max(one["ended_at_ms"] for one in ended)
    held = sum((one["ended_at_ms"] - one["placed_at_ms"]) * one["gpu_milli"] for one in ended)
    offered = fleet_gpu_milli * max(last - first, 1)
    return float(round(100 * held / offered, 2))


def _spread(ordered: Sequence[int]) -> dict[str, int]:
    return {
        "count": len(ordered),
        "p50": percentile(ordered, 50),
        "p99": percentile(ordered, 99),
    }


def table_of(report: Json) -> list[str]:
    """The report for people."""
    names = ("submitted", "rejected", "waiting", "running", "done", "utilisation_percent")
    lines = [f"{name:<20} {report[name]}" for name in names]
    lines += [f"{'':<20} {count} wait: {why}" for why, count in sorted(report["reasons"].items())]
    lines.append(f"{'wait':<20} {'workloads':>9} {'p50 s':>9} {'p99 s':>9}")
    for name, each in report["wait_ms"].items():
        p50, p99 = each["p50"] / 1_000, each["p99"] / 1_000
        lines.append(f"  {name:<18} {each['count']:>9} {p50:>9.2f} {p99:>9.2f}")
    return lines
