"""Slow changes of GPUs that end badly: told when one is found, and when it is over.

Readings become points (`courses.py`); points are judged by shared/core/health: leak, heat, replays
and, by gang, stragglers (`gang_clocks.py`). What is open is in the journal, so that its end is
told after a restart, too; the evidence is in memory alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.monitoring.memory import MonitoringMemory
from services.monitoring.trends.courses import Course
from services.monitoring.trends.gang_clocks import judged_gangs
from services.monitoring.trends.node_courses import NodeCourses
from services.monitoring.trends.told import Holders, ToldTrends
from shared.core.health.heat import judged_heat
from shared.core.health.leak import judged_leak
from shared.core.health.replays import judged_replays
from shared.core.health.trends import Trend, TrendJudgement
from shared.core.model.nouns import Node
from shared.events.envelope import Received
from shared.events.nodes import GpuUsageReported
from shared.runtime.handler import Emit


class Trends:
    """The GPUs of one cell."""

    def __init__(self, memory: MonitoringMemory, cell: int) -> None:
        self._memory = memory
        self._told = ToldTrends(memory, cell)
        self._courses: dict[str, NodeCourses] = {}
        self._uuids: dict[str, dict[int, str]] = {}
        """Of the devices of a node, by index."""

    def reported(self, message: Received, fact: GpuUsageReported) -> list[Emit]:
        """What a report of a node lets be said.

        O(GPUs and work on the node), and once in five minutes O(their points and gangs).
        """
        node, at_ms = fact.node, message.logged_ms
        courses = self._courses_of(node, len(fact.utilization_percent))
        holders = self._holders(node)
        emits = list(self._told.of_work_that_is_gone(message, node, holders))
        for gpu, course in enumerate(courses.gpus):
            course.held_by(holders.get(gpu, ()), at_ms)
        finished_ms = courses.finished(at_ms)
        if finished_ms is not None:
            emits += self._judge(message, node, courses, finished_ms)
        courses.add(at_ms, fact)
        return emits

    def inventory(self, message: Received, node: Node) -> list[Emit]:
        """What was found of a device that another one replaces is over. O(GPUs)."""
        before, now = self._uuids.get(node.name, {}), {gpu.index: gpu.uuid for gpu in node.gpus}
        if before == now:
            return []
        self._uuids[node.name] = now
        replaced = {gpu for gpu, uuid in now.items() if before.get(gpu) not in {None, "", uuid}}
        known = self._courses.get(node.name)
        for gpu in replaced:
            if known and gpu < len(known.gpus):
                known.gpus[gpu] = Course()
        return self._told.end_all(message, node.name, replaced)

    def removed(self, message: Received, node: str) -> list[Emit]:
        """The node is gone, and what was open there is over."""
        self._courses.pop(node, None)
        self._uuids.pop(node, None)
        return self._told.end_all(message, node)

    def _courses_of(self, node: str, gpus: int) -> NodeCourses:
        known = self._courses.get(node)
        if known is None or len(known.gpus) != gpus:
            known = self._courses[node] = NodeCourses(gpus)
        return known

    def _holders(self, node: str) -> Holders:
        by_gpu: dict[int, set[str]] = {}
        for workload_id, shares in self._memory.shares.get(node, {}).items():
            for gpu, *_ in shares:
                by_gpu.setdefault(gpu, set()).add(workload_id)
        return {gpu: tuple(sorted(ids)) for gpu, ids in by_gpu.items()}

    def _judge(
        self, message: Received, node: str, courses: NodeCourses, finished_ms: int
    ) -> Iterator[Emit]:
        """Make points, and look at the last of them."""
        opened = self._memory.trends.get(node, {})
        for gpu, course in enumerate(courses.gpus):
            if course.close(finished_ms, is_hot=(gpu, Trend.HEAT) in opened):
                for trend, judgement in _judgements(course):
                    key = node, gpu, trend
                    yield from self._told.decide(message, key, judgement, course.work)
        for (name, gpu), judgement in judged_gangs(self._memory, self._courses, node, finished_ms):
            key, work = (name, gpu, Trend.STRAGGLER), self._holders(name).get(gpu, ())
            yield from self._told.decide(message, key, judgement, work)


def _judgements(course: Course) -> Iterator[tuple[Trend, TrendJudgement]]:
    """What the points of one GPU say; nothing where there are none."""
    if course.work:
        memory = course.memory_points()
        if memory:
            yield Trend.LEAK, judged_leak(memory)
    heat = course.heat_points()
    if heat:
        yield Trend.HEAT, judged_heat(heat)
    replays = course.replay_points()
    if replays:
        yield Trend.REPLAY, judged_replays(replays)
