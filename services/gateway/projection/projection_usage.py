"""GPU-hours of attempts as rows: the newest that is told of each and its day stands."""

from __future__ import annotations

import hashlib

import msgspec

from services.gateway.projection.projection_rows import GpuUsageRow, ProjectionBatch
from shared.events.envelope import Event
from shared.events.usage import AttemptUse, UsageTold, WorkClassesTold


def told(batch: ProjectionBatch, event: Event, fact: UsageTold) -> None:
    """Where GPU-hours of some attempts went."""
    del event
    for one in fact.attempts:
        key = one.day, one.workload_id, one.attempt, one.resizes
        known = batch.gpu_usage.get(key)
        if known is not None and not _replaces(one, fact.at_ms, known):
            continue
        batch.gpu_usage[key] = (
            one.day,
            one.workload_id,
            one.attempt,
            one.resizes,
            one.team,
            one.queue,
            one.namespace,
            one.flavor,
            one.used,
            one.unused,
            one.unmeasured,
            one.price_microdollars_per_gpu_hour,
            one.ended,
            fact.at_ms,
            one.purchase.value,
        )


def like_work(batch: ProjectionBatch, event: Event, fact: WorkClassesTold) -> None:
    """What like work makes of its GPUs, by week: the newest stands."""
    del event
    for one in fact.classes:
        text = "/".join(map(str, one.key))
        key = one.week, fact.cell, hashlib.sha256(text.encode()).hexdigest()[:32]
        known = batch.work_classes.get(key)
        if known is None or fact.at_ms >= known[-1]:
            body = msgspec.json.encode(one).decode()
            batch.work_classes[key] = (*key, one.team, body, fact.at_ms)


def _replaces(one: AttemptUse, at_ms: int, known: GpuUsageRow) -> bool:
    """What is told of an end stands; before that the newest. The statement says the same."""
    *_, known_ended, known_at_ms, _ = known
    return not known_ended and (one.ended or at_ms >= known_at_ms)
