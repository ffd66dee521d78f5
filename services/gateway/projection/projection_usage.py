"""GPU-hours of attempts as rows: the newest that is told of each and its day stands."""

from __future__ import annotations

from services.gateway.projection.projection_rows import ProjectionBatch
from shared.events.envelope import Event
from shared.events.usage import UsageTold


def told(batch: ProjectionBatch, event: Event, fact: UsageTold) -> None:
    """Where GPU-hours of some attempts went."""
    del event
    for one in fact.attempts:
        batch.gpu_usage[one.day, one.workload_id, one.attempt, one.resizes] = (
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
        )
