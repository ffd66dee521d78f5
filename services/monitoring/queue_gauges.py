"""What waits in queues: GPUs asked for by reason, and how long the first and the oldest wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.families import Labels, gauge, gpus
from services.monitoring.memory import MonitoringMemory, SeenWorkload
from shared.core.model.lifecycle import State

ANY_FLAVOR: Final = "any"


def families(memory: MonitoringMemory, now_ms: int) -> Iterator[Metric]:
    """The gauges. O(workloads)."""
    waiting = [
        one
        for one in memory.workloads.copy().values()
        if one.state is State.QUEUED and one.counted
    ]
    text = (
        "GPUs asked for by what waits, by the reason told last; the flavor is `any` where the"
        " queue has several."
    )
    yield gauge("muster_queue_gpus", text, "queue flavor reason", gpus(_asked(memory, waiting)))
    queues = [name for name, one in memory.quotas.copy().items() if one.kind == "queue"]
    text = "For how long the first of a queue waits: the oldest of the highest priority."
    heads = _waits(queues, sorted(waiting, key=_turn), now_ms)
    yield gauge("muster_queue_head_wait_seconds", text, "queue", heads)
    text = "For how long the oldest of a queue waits, since it came or gave its GPUs back."
    oldest = _waits(queues, sorted(waiting, key=lambda one: one.waits_since_ms), now_ms)
    yield gauge("muster_queue_oldest_wait_seconds", text, "queue", oldest)


def _asked(memory: MonitoringMemory, waiting: list[SeenWorkload]) -> Counter[Labels]:
    flavors: dict[str, str] = {}
    for name, node in memory.quotas.copy().items():
        several = len(node.flavors) != 1
        flavors[name] = ANY_FLAVOR if several else node.flavors[0].flavor
    asked: Counter[Labels] = Counter()
    for one in waiting:
        asked[one.queue, flavors.get(one.queue, ANY_FLAVOR), one.reason] += one.asked_milli
    return asked


def _turn(one: SeenWorkload) -> tuple[int, int]:
    return -one.priority, one.waits_since_ms


def _waits(queues: list[str], ordered: list[SeenWorkload], now_ms: int) -> dict[Labels, float]:
    """Seconds by queue of the first of each; 0 where nothing waits."""
    waits: dict[Labels, float] = {}
    for one in ordered:
        waits.setdefault((one.queue,), max(now_ms - one.waits_since_ms, 0) / 1000)
    return {(queue,): 0.0 for queue in queues} | waits
