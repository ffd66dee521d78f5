"""What like work makes of its GPUs: evidence by class and week, told in time and kept."""

from typing import Any

import msgspec
import pytest
from typing_extensions import override

from services.monitoring import like_work
from shared.core.model.nouns import (
    GpuRequest,
    GpuShare,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.quota.cost import DAY_MS
from shared.events import workloads
from shared.events.usage import WorkClassesTold, WorkClassUse
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_use import SECOND, START, Fleet

HALF = (GpuShare(index=0, mask=0, milli=500, memory_mib=0),)


class Classes(Fleet):
    """The newest that is told of each class and week."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[tuple[str, int, int], WorkClassUse] = {}

    @override
    def _told(self, emit: Any) -> None:
        super()._told(emit)
        if isinstance(emit.payload, WorkClassesTold):
            for one in emit.payload.classes:
                self.classes[one.name, one.milli, one.week] = one

    def queue(self, workload_id: str, name: str, *, each: int = 1) -> None:
        spec = WorkloadSpec(
            name=name,
            kind=WorkloadKind.NOTEBOOK,
            pod_sets=(PodSet(gpu=GpuRequest(count=each), image="lab:1"),),
        )
        workload = Workload(
            id=workload_id, team="vision", queue="vision-queue", cell=0, priority=1, spec=spec,
            submitted_at_ms=START,
        )  # fmt: skip
        self.at(0, workloads.WorkloadQueued(workload=workload, body_hash=""))

    def report(self, second: float, *percent: int, memory: tuple[int, ...], node="n1") -> None:
        one = b.usage(*percent, node=node)
        self.at(second, msgspec.structs.replace(one, memory_used_mib=memory))


@pytest.fixture
def fleet() -> Classes:
    return Classes()


def test_runs_that_differ_by_a_counter_are_one_class(fleet: Classes):
    for number, node in ((1, "n1"), (2, "n2")):
        fleet.queue(f"w{number}", f"lab-{number}")
        fleet.place(0, f"w{number}", node=node)
    for second in range(0, 130, 10):
        fleet.report(second, 30, memory=(1_000,))
        fleet.report(second, 50, memory=(9_000,), node="n2")

    ((key, seen),) = fleet.classes.items()
    assert "lab" == key[0]
    assert (WorkloadKind.NOTEBOOK, "lab:1", "h100", 1, 1, 1_000) == (
        seen.kind, seen.image, "h100", seen.gpus, seen.gpus_each, seen.milli,
    )  # fmt: skip
    assert (30, 50) == seen.percents
    assert [1_000, 9_000] == [mib // 1_000 * 1_000 for mib in seen.memory_mib]
    assert all(ms >= 60_000 for ms in (*seen.percents_ms, *seen.memory_ms))
    assert 0.35 < seen.used / (seen.used + seen.unused) < 0.45


def test_of_a_shared_gpu_the_memory_is_of_nobody_and_use_is_split(fleet: Classes):
    for number in (1, 2):
        fleet.queue(f"w{number}", f"lab-{number}")
        fleet.place(0, f"w{number}", shares=HALF)
    for second in range(0, 130, 10):
        fleet.report(second, 41, memory=(1_000,))

    (seen,) = fleet.classes.values()
    assert (500, (21,), ()) == (seen.milli, seen.percents, seen.memory_mib)


def test_the_only_holder_of_a_part_has_the_memory(fleet: Classes):
    fleet.queue("w1", "lab")
    fleet.place(0, shares=HALF)
    for second in range(0, 130, 10):
        fleet.report(second, 90, memory=(1_000,))

    (seen,) = fleet.classes.values()
    assert ((50,), (1_007,)) == (seen.percents, seen.memory_mib)


def test_instances_and_work_that_is_not_known_yet_are_not_followed(fleet: Classes):
    fleet.queue("w1", "lab")
    fleet.place(0, shares=(GpuShare(index=0, mask=3, milli=250, memory_mib=0),))
    fleet.place(0, "w2", node="n2")
    for second in range(0, 130, 10):
        fleet.report(second, 90, memory=(1_000,))
        fleet.report(second, 90, memory=(1_000,), node="n2")

    assert not fleet.classes


def test_a_week_that_is_over_is_told_and_the_next_begins_with_nothing(fleet: Classes):
    monday = (like_work.week_of(START) + 7) * DAY_MS
    before = (monday - START) // 1_000 - 40
    fleet.queue("w1", "lab")
    fleet.place(before)
    for second in range(0, 180, 10):
        fleet.report(before + second, 100, memory=(1_000,))

    first, next_week = (
        fleet.classes[key] for key in sorted(fleet.classes, key=lambda one: one[2])
    )
    assert 7 == next_week.week - first.week
    assert 30 * SECOND <= first.used <= 40 * SECOND
    assert 0 < next_week.used <= 130 * SECOND


async def test_what_was_told_is_known_after_a_restart(fleet: Classes):
    fleet.queue("w1", "lab")
    fleet.place(0)
    for second in range(0, 130, 10):
        fleet.report(second, 100, memory=(1_000,))
    (before,) = fleet.classes.values()

    await fleet.restart()
    for second in range(130, 260, 10):
        fleet.report(second, 100, memory=(1_000,))

    (after,) = fleet.classes.values()
    assert before.used + 60 * SECOND <= after.used


def test_beyond_the_bound_no_class_is_followed(fleet: Classes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(like_work, "CLASSES_MAX", 1)
    for number, name in ((1, "one"), (2, "two")):
        fleet.queue(f"w{number}", name)
        fleet.place(0, f"w{number}", node=f"n{number}")
    for second in range(0, 130, 10):
        for node in ("n1", "n2"):
            fleet.report(second, 100, memory=(1_000,), node=node)

    assert {"one"} == {key[0] for key in fleet.classes}
