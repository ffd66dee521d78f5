"""The shapes of Kueue's in-tree performance test: cohorts of queues with three classes of work.

Source: kueue, test/performance/scheduler/configs/{baseline,large-scale}. CPU alone is asked for;
a queue owns 20 CPUs and may borrow 100. Each class of a queue is created at its own interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec

NOMINAL_CPU: Final = 20
BORROWED_CPU_MAX: Final = 100
FLAVOR: Final = "default"
MEMORY_MIB: Final = 128
MEMORY_QUOTA_MIB: Final = 1 << 20
TIME_SCALE: Final = 10
"""Durations are told ten times longer, to a cluster that runs ten times faster: a spec counts
whole seconds, and the shortest class runs for 200 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClass:
    """Equal workloads: CPUs, run time, priority, and how often one is created in each queue."""

    name: str
    cpu: int
    run_ms: int
    priority: int
    interval_ms: int


CLASSES: Final = (
    WorkClass(name="small", cpu=1, run_ms=200, priority=50, interval_ms=100),
    WorkClass(name="medium", cpu=5, run_ms=500, priority=100, interval_ms=500),
    WorkClass(name="large", cpu=20, run_ms=1_000, priority=200, interval_ms=1_200),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`cohorts` x `queues` (in each) x `counts` (of each class)."""

    name: str
    cohorts: int
    queues: int
    counts: tuple[int, int, int]

    @property
    def workloads(self) -> int:
        """All of them."""
        return self.cohorts * self.queues * sum(self.counts)

    @property
    def ideal_ms(self) -> int:
        """The shortest time in which a queue's work fits its own quota."""
        used = sum(one.cpu * one.run_ms * n for one, n in zip(CLASSES, self.counts, strict=True))
        return used // NOMINAL_CPU

    def tenth(self) -> Shape:
        """The same tree with a tenth of the work."""
        small, medium, large = (count // 10 for count in self.counts)
        return replace(self, counts=(small, medium, large))

    def queue_names(self) -> Iterator[tuple[str, str]]:
        """(cohort, queue)."""
        for cohort in range(self.cohorts):
            for queue in range(self.queues):
                yield f"cohort-{cohort}", f"queue-{cohort}-{queue}"


SHAPES: Final = {
    one.name: one
    for one in (
        Shape(name="baseline", cohorts=5, queues=6, counts=(350, 100, 50)),
        Shape(name="large-scale", cohorts=10, queues=100, counts=(35, 10, 5)),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One workload: when it is created (after the start), where, and of which class."""

    at_ms: int
    queue: str
    number: int
    work: WorkClass


def arrivals(shape: Shape) -> list[Arrival]:
    """Every workload in order of creation; of equal times the larger class first."""
    found = [
        Arrival(at_ms=number * work.interval_ms, queue=queue, number=number, work=work)
        for _, queue in shape.queue_names()
        for work, count in zip(CLASSES, shape.counts, strict=True)
        for number in range(count)
    ]
    return sorted(found, key=lambda one: (one.at_ms, -one.work.cpu, one.queue))


def spec_of(arrival: Arrival) -> WorkloadSpec:
    """What a user would submit."""
    work = arrival.work
    pod = PodSet(gpu=GpuRequest(count=0), cpu_milli=work.cpu * 1_000, memory_mib=MEMORY_MIB)
    return WorkloadSpec(
        name=f"{arrival.queue}-{work.name}-{arrival.number}",
        kind=WorkloadKind.BATCH_INFERENCE,
        queue=arrival.queue,
        priority_class=work.name,
        pod_sets=(pod,),
        expected_duration_seconds=work.run_ms * TIME_SCALE // 1_000,
    )


def documents(shape: Shape, team: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(path, body) of what must be applied, in order."""
    yield f"flavors/{FLAVOR}", {}
    yield f"teams/{team}", {"default_queue": team}
    for work in CLASSES:
        yield f"priority-classes/{work.name}", {"value": work.priority}
    for number in range(shape.cohorts):
        yield f"cohorts/cohort-{number}", {}
    for cohort, queue in shape.queue_names():
        yield f"queues/{queue}", {"team": team, "cohort": cohort, "flavors": [_quota()]}


def _quota() -> dict[str, Any]:
    nominal = {"cpu_milli": NOMINAL_CPU * 1_000, "memory_mib": MEMORY_QUOTA_MIB}
    limit = {"cpu_milli": BORROWED_CPU_MAX * 1_000, "memory_mib": MEMORY_QUOTA_MIB}
    return {"flavor": FLAVOR, "nominal": nominal, "borrowing_limit": limit}
