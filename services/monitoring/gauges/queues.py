"""What waits in queues: GPUs asked for by reason, and how long the first and the oldest wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge, gpus
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import SeenWorkload
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
    heads, oldest = _waits(memory, waiting, now_ms)
    text = "For how long the first of a queue waits: the oldest of the highest priority."
    yield gauge("muster_queue_head_wait_seconds", text, "queue", heads)
    text = "For how long the oldest of a queue waits, since it came or gave its GPUs back."
    yield gauge("muster_queue_oldest_wait_seconds", text, "queue", oldest)


def _asked(memory: MonitoringMemory, waiting: list[SeenWorkload]) -> dict[Labels, int]:
    flavors: dict[str, str] = {}
    for name, node in memory.quotas.copy().items():
        several = len(node.flavors) != 1
        flavors[name] = ANY_FLAVOR if several else node.flavors[0].flavor
    by_reason: dict[tuple[str, str], int] = {}
    for one in waiting:
        key = one.queue, one.reason
        by_reason[key] = by_reason.get(key, 0) + one.asked_milli
    return {
        (queue, flavors.get(queue, ANY_FLAVOR), reason): milli
        for (queue, reason), milli in by_reason.items()
    }


def _waits(
    memory: MonitoringMemory, waiting: list[SeenWorkload], now_ms: int
) -> tuple[dict[Labels, float], dict[Labels, float]]:
    """Seconds by queue: of the first and of the oldest; 0 where nothing waits."""
    first: dict[str, tuple[int, int]] = {}
    oldest: dict[str, int] = {}
    for one in waiting:
        queue, since_ms = one.queue, one.waits_since_ms
        turn = (-one.priority, since_ms)
        known = oldest.get(queue)
        if known is None or since_ms < known:
            oldest[queue] = since_ms
        if known is None or turn < first[queue]:
            first[queue] = turn
    queues = [name for name, one in memory.quotas.copy().items() if one.kind == "queue"]
    heads = {queue: at_ms for queue, (_, at_ms) in first.items()}
    return _seconds(queues, heads, now_ms), _seconds(queues, oldest, now_ms)


def _seconds(queues: list[str], since_ms: Mapping[str, int], now_ms: int) -> dict[Labels, float]:
    waits: dict[Labels, float] = {(queue,): 0.0 for queue in queues}
    for queue, at_ms in since_ms.items():
        waits[queue,] = max(now_ms - at_ms, 0) / 1000
    return waits
