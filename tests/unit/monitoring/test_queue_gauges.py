"""What waits, by queue: GPUs by reason, the first and the oldest."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.model.decision import Reason
from shared.core.model.nouns import GpuRequest, PodSet
from shared.core.model.value import replace
from shared.events import quotas, workloads
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

SECOND = 1_000


def asks(workload_id: str, gpus: int, at_s: int = 0, **more: Any) -> workloads.WorkloadQueued:
    queued = b.queued(workload_id)
    pods = PodSet(count=2, gpu=GpuRequest(count=gpus // 2))
    workload = replace(
        queued.workload,
        spec=replace(queued.workload.spec, pod_sets=(pods,)),
        submitted_at_ms=b.START_MS + at_s * SECOND,
        **more,
    )
    return workloads.WorkloadQueued(workload=workload, body_hash="")


def queue(*flavors: str, version: int = 1) -> quotas.QuotaChanged:
    limits = tuple(quotas.FlavorQuota(flavor=one) for one in flavors)
    return quotas.QuotaChanged(name="vision-queue", kind="queue", flavors=limits, version=version)


@pytest.fixture
def monitoring() -> Monitoring:
    one = Monitoring()
    one.read(queue("h100"))
    return one


def waiting(monitoring: Monitoring, reason: str, flavor: str = "h100") -> float | None:
    labels = {"queue": "vision-queue", "flavor": flavor, "reason": reason}
    found: float | None = monitoring.value("muster_queue_gpus", **labels)
    return found


def waits(monitoring: Monitoring) -> tuple[float, float]:
    """Seconds of the first and of the oldest."""
    head, oldest = (
        monitoring.value(f"muster_queue_{one}_wait_seconds", queue="vision-queue")
        for one in ("head", "oldest")
    )
    return head, oldest


async def test_gpus_asked_for_are_told_by_reason(monitoring):
    monitoring.read(asks("w0", 6), asks("w1", 2), asks("w2", 4))
    monitoring.read(b.refused_by_quota(workload_id="w2"))

    assert (waiting(monitoring, ""), waiting(monitoring, "WaitingForQuota")) == (8, 4)
    await monitoring.restart()
    assert (waiting(monitoring, ""), waiting(monitoring, "WaitingForQuota")) == (8, 4)

    monitoring.read(b.placed(workload_id="w0"), b.placed(workload_id="w1"))
    monitoring.read(b.refused(Reason.NO_CAPACITY, workload_id="w2"))
    assert (waiting(monitoring, ""), waiting(monitoring, "InsufficientCapacity")) == (None, 4)


def test_a_queue_of_several_flavors_waits_for_any(monitoring):
    monitoring.read(queue("h100", "a100", version=2), asks("w1", 2))

    assert waiting(monitoring, "", "any") == 2


def test_the_first_is_of_the_highest_priority_and_the_oldest_of_any(monitoring):
    assert waits(monitoring) == (0, 0), "nothing waits"
    monitoring.read(asks("w1", 2), asks("w2", 2, at_s=30, priority=900))
    monitoring.clock.ms += 100 * SECOND

    assert waits(monitoring) == (70, 100)


def test_what_was_put_back_waits_since_it_gave_its_gpus_back(monitoring):
    monitoring.read(asks("w1", 2), b.placed(workload_id="w1"))
    back_ms = b.START_MS + 60 * SECOND
    monitoring.read(b.released(workloads.WorkloadRequeued, 4, back_ms, "w1"))
    monitoring.clock.ms += 100 * SECOND

    assert waits(monitoring) == (40, 40)
