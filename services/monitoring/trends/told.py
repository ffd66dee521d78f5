"""Trends that are told: when one is found, and when it is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import OpenTrend
from shared.core.health.trends import Trend, TrendEvidence, TrendJudgement
from shared.events.envelope import Received
from shared.events.nodes import TrendEnded, TrendFound
from shared.events.topics import HEALTH_FACTS
from shared.runtime.handler import Emit

QUIET_MS: Final = 1_800_000
"""A trend must be absent for so long before it is over: one about its limit is told once."""
OF_WORK: Final = frozenset({Trend.LEAK, Trend.STRAGGLER})
"""They are of the work on a device, and over with it."""

TrendKey = tuple[str, int, Trend]
"""(node, index of the GPU, trend)."""
Holders = dict[int, tuple[str, ...]]
"""Ids of the workloads on each GPU of a node, in order."""


class ToldTrends:
    """Of one cell; what is open is in the memory and its journal."""

    def __init__(self, memory: MonitoringMemory, cell: int) -> None:
        self._memory = memory
        self._cell = cell
        self._quiet_ms: dict[TrendKey, int] = {}
        """Since when an open trend is absent."""

    def of_work_that_is_gone(
        self, message: Received, node: str, holders: Holders
    ) -> Iterator[Emit]:
        """Trends of work that does not hold its device any more are over. O(open there)."""
        for (gpu, trend), one in list(self._memory.trends.get(node, {}).items()):
            if trend in OF_WORK and one.work != holders.get(gpu, ()):
                yield from self._end(message, (node, gpu, trend))

    def decide(
        self,
        message: Received,
        key: TrendKey,
        judgement: TrendJudgement,
        work: tuple[str, ...],
    ) -> Iterator[Emit]:
        """What a judgement changes; `work` is what holds the device now. O(1)."""
        node, gpu, trend = key
        known = self._memory.trends.get(node, {}).get((gpu, trend))
        if judgement.evidence is TrendEvidence.FOUND:
            self._quiet_ms.pop(key, None)
            if known is None:
                yield self._found(message, key, judgement, work)
            else:
                self._memory.trends[node][gpu, trend] = OpenTrend(
                    known.since_ms, judgement.value, known.work
                )
        elif judgement.evidence is TrendEvidence.ABSENT and known is not None:
            since_ms = self._quiet_ms.setdefault(key, message.logged_ms)
            if message.logged_ms - since_ms >= QUIET_MS:
                yield from self._end(message, key)

    def end_all(
        self, message: Received, node: str, gpus: Collection[int] | None = None
    ) -> list[Emit]:
        """Whatever is open of these GPUs of a node, or of all, is over. O(open there)."""
        here = [one for one in self._memory.trends.get(node, ()) if gpus is None or one[0] in gpus]
        return [emit for gpu, trend in here for emit in self._end(message, (node, gpu, trend))]

    def _end(self, message: Received, key: TrendKey) -> Iterator[Emit]:
        self._quiet_ms.pop(key, None)
        node, gpu, trend = key
        one = self._memory.end_trend(node, gpu, trend)
        if one is not None:
            fact = TrendEnded(
                node=node, gpu=gpu, trend=trend, since_ms=one.since_ms, cell=self._cell
            )
            yield self._emit(fact, message)

    def _found(
        self,
        message: Received,
        key: TrendKey,
        judgement: TrendJudgement,
        work: tuple[str, ...],
    ) -> Emit:
        node, gpu, trend = key
        one = OpenTrend(judgement.since_ms, judgement.value, work if trend in OF_WORK else ())
        self._memory.open_trend(node, gpu, trend, one)
        fact = TrendFound(
            node=node,
            gpu=gpu,
            trend=trend,
            value=round(judgement.value, 1),
            limit=round(judgement.limit, 1),
            since_ms=judgement.since_ms,
            message=judgement.sentence(node, gpu),
            cell=self._cell,
        )
        return self._emit(fact, message)

    def _emit(self, fact: TrendFound | TrendEnded, message: Received) -> Emit:
        return Emit(
            payload=fact,
            topic=HEALTH_FACTS,
            subject=fact.node,
            cause=message,
            partition=self._cell,
        )
