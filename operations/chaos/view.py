"""Reports of chaos for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

NONE: Final = "-"
COLUMNS: Final = ("WORKLOAD", "TEAM", "GPUS", "GPU-HOURS LOST", "RUNS ELSEWHERE AFTER", "STATE")


def lines_of_friday(report: dict[str, Any]) -> list[str]:
    """What it cost in one line, then a line for each workload."""
    seconds = report["seconds_until_elsewhere"]
    after = (
        f", all within {seconds:.1f} s" if seconds is not None and not report["waiting"] else ""
    )
    total = (
        f"{report['node']}: {report['moved']} of {report['workloads']} workloads run elsewhere"
        f"{after}; {report['ended']} ended, {report['waiting']} wait;"
        f" {report['gpu_hours_lost']:.2f} GPU-hours lost"
    )
    rows = [
        (
            one["name"] or one["workload_id"],
            one["team"],
            f"{one['gpus']:g}",
            f"{one['gpu_hours_lost']:.2f}",
            NONE
            if one["seconds_until_elsewhere"] is None
            else f"{one['seconds_until_elsewhere']:.1f} s",
            one["state"] or NONE,
        )
        for one in report["work"]
    ]
    return [total, *(_table([COLUMNS, *rows]) if rows else [])]


def lines_of_plan(plan: dict[str, Any]) -> list[str]:
    """Which node would be taken, when and at what cost."""
    total = (
        f"{plan['node']} ({plan['flavor']}) would go down, from {plan['may_begin']} on;"
        f" {len(plan['workloads'])} workloads hold some of it,"
        f" {plan['gpu_hours_lost']:.2f} GPU-hours would be lost now"
    )
    return [total, *(f"  {one}" for one in plan["workloads"])]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
