"""Leaks of memory by reports of use, and what ends the evidence."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from shared.core.model.nouns import GpuShare
from shared.events import nodes, workloads
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

MINUTE = 60_000
HOUR = 60 * MINUTE


class Leaking(Monitoring):
    """A workload on GPU 0 of n1, and reports each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms = b.START_MS
        self.runs("w1")

    def runs(self, name: str) -> None:
        share = GpuShare(index=0, mask=255, milli=1000, memory_mib=0)
        self.read(b.queued(name), b.placed(2, name, shares=(share,)))

    def passes(self, hours: float, mib_per_hour: float, *, from_mib: float = 10_000) -> None:
        for minute in range(round(hours * 60)):
            self.at_ms += MINUTE
            memory = round(from_mib + mib_per_hour * minute / 60)
            self.read(
                nodes.GpuUsageReported(
                    node="n1",
                    at_ms=self.at_ms,
                    utilization_percent=(60, 0),
                    memory_used_mib=(memory, 0),
                    temperature_celsius=(50, 40),
                    power_watts=(300, 60),
                )
            )

    @property
    def shown(self) -> float | None:
        found: float | None = self.value("muster_gpu_leak_mib_per_hour", node="n1", gpu="0")
        return found


def found() -> float:
    return REGISTRY.get_sample_value("muster_trends_total", {"trend": "leak"}) or 0


@pytest.fixture
def leaking() -> Leaking:
    return Leaking()


def test_a_leak_is_shown_and_counted_once(leaking):
    before = found()
    leaking.passes(6, 500)
    assert (leaking.shown, found()) == (None, before), "the first half hour is no evidence"

    leaking.passes(3, 500, from_mib=13_000)

    assert leaking.shown == pytest.approx(500, rel=0.05)
    assert found() == before + 1


def test_other_work_on_the_gpu_ends_the_evidence(leaking):
    leaking.passes(8, 500)
    assert leaking.shown is not None
    leaking.read(b.released(workloads.WorkloadSucceeded, 3, leaking.at_ms, "w1", "vision"))
    leaking.runs("w2")

    leaking.passes(5, 500)

    assert leaking.shown is None


def test_memory_that_is_steady_leaks_no_more(leaking):
    leaking.passes(8, 500)
    assert leaking.shown is not None

    leaking.passes(7, 0, from_mib=14_000)

    assert leaking.shown is None


def test_a_gpu_that_nobody_holds_has_no_course(leaking):
    leaking.passes(1, 500)

    assert set(leaking.handler._trends._courses) == {("n1", 0)}
