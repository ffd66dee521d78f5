"""Gangs: the clocks of the GPUs that one workload holds, judged by core/health/straggler.py.

A gang is looked at with the points of its first node, so a report never costs O(gangs). The nodes
of a gang make their points one after the other, so the last points that all have are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from services.monitoring.memory import MonitoringMemory
from services.monitoring.trends.node_courses import NodeCourses
from shared.core.health.straggler import POINTS, judged_gang
from shared.core.health.trends import ABSENT, POINT_MS, UNTOLD, TrendJudgement
from shared.core.model.lifecycle import State
from shared.core.model.units import GPU_MILLI

UNSEEN: Final = ((UNTOLD, UNTOLD, 0.0),) * POINTS

Place = tuple[str, int]
"""(node, index of the GPU)."""


def judged_gangs(
    memory: MonitoringMemory, courses: Mapping[str, NodeCourses], node: str, finished_ms: int
) -> Iterator[tuple[Place, TrendJudgement]]:
    """Of each GPU of the gangs whose first node this is, with its point of `finished_ms` made."""
    since_ms = finished_ms - POINTS * POINT_MS
    for workload_id in memory.shares.get(node, ()):
        one = memory.workloads.get(workload_id)
        if one is None or one.state is not State.RUNNING or one.running_at_ms > since_ms:
            continue
        if memory.nodes_of[workload_id][0] == node:
            held = memory.devices[workload_id]
            whole = [(name, gpu) for name, gpu, milli, _ in held if milli == GPU_MILLI]
            yield from zip(whole, _judged(courses, whole, since_ms), strict=True)


def _judged(
    courses: Mapping[str, NodeCourses], gang: list[Place], since_ms: int
) -> list[TrendJudgement]:
    if len(gang) == 1:
        return [ABSENT]  # it is no gang any more, if it was one
    if not gang:
        return []
    rows = [_clocks(courses, node, gpu, since_ms) or UNSEEN for node, gpu in gang]
    sm_mhz, percent, throttled = np.moveaxis(np.array(rows, dtype=float), 2, 0)
    return judged_gang(since_ms, sm_mhz=sm_mhz, percent=percent, throttled=throttled)


def _clocks(
    courses: Mapping[str, NodeCourses], node: str, gpu: int, since_ms: int
) -> list[tuple[float, ...]]:
    known = courses.get(node)
    return known.gpus[gpu].clocks(since_ms) if known and gpu < len(known.gpus) else []
