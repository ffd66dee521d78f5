"""Trends by reports of use: what is told, what is shown, and what ends the evidence."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY

from services.monitoring.trends.courses import KEPT, SHORT_MAX
from services.monitoring.trends.told import QUIET_MS
from shared.core.health import heat
from shared.core.health.trends import POINT_MS, Trend
from shared.core.model.nouns import Gpu, GpuShare, Node
from shared.events import nodes, workloads
from shared.events.nodes import TrendEnded, TrendFound
from shared.events.topics import HEALTH_FACTS
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

MINUTE = 60_000
HOUR = 60 * MINUTE


class Course(Monitoring):
    """Workload w1 on GPU 0 of n1, and a report each minute."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms = b.START_MS
        self.told: list[TrendFound | TrendEnded] = []
        self.runs("w1")

    def runs(self, name: str, *indexes: int) -> None:
        shares = tuple(
            GpuShare(index=index, mask=255, milli=1000, memory_mib=0) for index in indexes or (0,)
        )
        running = b.a_fact(workloads.WorkloadRunning, 3, name, running_at_ms=self.at_ms)
        self.read(b.queued(name), b.placed(2, name, shares=shares), running)

    def ends(self, name: str) -> None:
        self.read(b.released(workloads.WorkloadSucceeded, 4, self.at_ms, name, "vision"))

    def report(self, **values: Any) -> None:
        """Of n1, after a minute."""
        self.at_ms += MINUTE
        given: dict[str, Any] = {
            "node": "n1",
            "utilization_percent": (60, 0),
            "memory_used_mib": (10_000, 0),
            "temperature_celsius": (50, 40),
            "power_watts": (300, 60),
        }
        self.send(nodes.GpuUsageReported(at_ms=self.at_ms, **given | values))

    def send(self, *payloads: Any) -> None:
        outcome = self.handler.decide([b.received(one) for one in payloads], b.START_MS)
        self.tables.apply(outcome.writes)
        self.handler.topics()
        told = (one.payload for one in outcome.emits if one.topic is HEALTH_FACTS)
        self.told += [one for one in told if isinstance(one, (TrendFound, TrendEnded))]

    def leaks(self, hours: float, mib_per_hour: float, *, from_mib: float = 10_000) -> None:
        for minute in range(round(hours * 60)):
            self.report(memory_used_mib=(round(from_mib + mib_per_hour * minute / 60), 0))

    def passes(self, hours: float, **values: Any) -> None:
        for _ in range(round(hours * 60)):
            self.report(**values)

    @property
    def shown(self) -> float | None:
        found: float | None = self.value("muster_gpu_leak_mib_per_hour", node="n1", gpu="0")
        return found

    @property
    def words(self) -> list[tuple[str, str, int]]:
        return [(type(one).__name__, one.trend.value, one.gpu) for one in self.told]


def found(trend: str) -> float:
    return REGISTRY.get_sample_value("muster_trends_total", {"trend": trend}) or 0


@pytest.fixture
def course() -> Course:
    return Course()


def test_each_trend_has_a_counter_before_the_first_is_found():
    for trend in Trend:
        assert REGISTRY.get_sample_value("muster_trends_total", {"trend": trend}) is not None


def test_a_leak_is_told_shown_and_counted_once(course):
    before = found("leak")
    course.leaks(6, 500)
    assert (course.shown, course.told) == (None, []), "the first half hour is no evidence"

    course.leaks(3, 500, from_mib=13_000)

    assert course.shown == pytest.approx(500, rel=0.05)
    assert found("leak") == before + 1
    (told,) = course.told
    assert (told.node, told.gpu, told.trend, told.limit) == ("n1", 0, Trend.LEAK, 200)
    assert told.value == pytest.approx(500, rel=0.05)
    assert told.message.startswith("GPU 0 of node n1: used memory rises by 5")
    assert b.START_MS < told.since_ms < course.at_ms - 6 * HOUR


def test_a_leak_is_found_within_ninety_minutes_of_its_evidence(course):
    course.passes(5)
    since_ms, evidence_ms = course.at_ms, course.at_ms + round(2_000 / 900 * HOUR)
    while not course.told:
        course.leaks(1 / 60, 0, from_mib=10_000 + 900 * (course.at_ms - since_ms) / HOUR)

    late_ms = course.at_ms - max(evidence_ms, b.START_MS + 6 * HOUR)
    assert late_ms <= 90 * MINUTE


def test_other_work_on_the_gpu_ends_a_leak(course):
    course.leaks(8, 500)
    course.ends("w1")
    course.runs("w2")

    course.leaks(5, 500)

    assert course.shown is None
    assert course.words == [("TrendFound", "leak", 0), ("TrendEnded", "leak", 0)]
    assert course.told[1].since_ms == course.told[0].since_ms


def test_memory_that_is_steady_leaks_no_more(course):
    course.leaks(8, 500)

    course.passes(7, memory_used_mib=(14_000, 0))

    assert course.shown is None
    assert course.words == [("TrendFound", "leak", 0), ("TrendEnded", "leak", 0)]


def test_a_trend_about_its_limit_is_told_once(course):
    def replays(an_hour: int, hours: int) -> None:
        for _ in range(hours * 12):
            course.count += an_hour // 12
            for _ in range(5):
                course.report(pcie_replays=(course.count, -1))

    course.count = 0
    replays(1_200, 2)
    for _ in range(6):
        course.passes(1.25, pcie_replays=(course.count, -1))
        replays(1_200, 1)

    assert course.words == [("TrendFound", "replay", 0)]
    course.passes(1.4, pcie_replays=(course.count, -1))
    assert len(course.told) == 1, f"it must be absent for {QUIET_MS // MINUTE} min"
    course.passes(0.3, pcie_replays=(course.count, -1))
    assert course.words[1:] == [("TrendEnded", "replay", 0)]


def test_replays_are_those_of_any_gpu_and_are_told_within_ten_minutes(course):
    course.passes(1, pcie_replays=(7, 4_000_000_000))
    assert course.told == []
    for minute in range(10):
        course.report(pcie_replays=(7, 1_000 + 60 * minute))

    course.passes(1 / 30, pcie_replays=(7, 2_000))

    assert course.words == [("TrendFound", "replay", 1)]


def test_a_gpu_that_nobody_holds_may_be_hot_but_never_leaks(course):
    course.passes(20, temperature_celsius=(50, 40), memory_used_mib=(0, 0))
    since_ms, mib = course.at_ms, 0
    while not course.told:
        mib += 100
        course.report(temperature_celsius=(50, 49), memory_used_mib=(10_000, mib))

    assert course.words == [("TrendFound", "heat", 1)]
    assert course.told[0].value == 9
    assert course.at_ms - since_ms <= HOUR


def test_heat_that_stays_does_not_become_the_measure(course):
    course.passes(20)
    course.passes(100, temperature_celsius=(70, 40))
    assert course.words == [("TrendFound", "heat", 0)]

    course.passes(1.2)

    assert course.words == [("TrendFound", "heat", 0), ("TrendEnded", "heat", 0)]


def test_heat_at_more_power_is_as_it_should_be(course):
    course.passes(20)

    course.passes(20, temperature_celsius=(75, 40), power_watts=(700, 60))

    assert course.told == []


def a_gang(course: Course, hours: float, slow_mhz: int = 1_200, **values: Any) -> None:
    given = {"utilization_percent": (99, 99, 99), "sm_clock_mhz": (1_980, 1_980, slow_mhz)}
    three = {"memory_used_mib": (1, 1, 1), "temperature_celsius": (50, 50, 50)}
    course.passes(hours, power_watts=(300, 300, 300), **given | three | values)


def wide(course: Course, minutes: int, **slow_mhz: int) -> None:
    """Reports of three nodes with a GPU each, that come one after the other."""
    for _ in range(minutes):
        course.at_ms += MINUTE
        course.send(*(
            nodes.GpuUsageReported(
                node=node,
                at_ms=course.at_ms + late_ms,
                utilization_percent=(99,),
                memory_used_mib=(1,),
                temperature_celsius=(50,),
                power_watts=(300,),
                sm_clock_mhz=(slow_mhz.get(node, 1_980),),
            )
            for node, late_ms in (("n1", 0), ("n2", 9_000), ("n3", 5_000))
        ))  # fmt: skip


def test_a_straggler_is_told_within_twenty_minutes_and_over_with_its_work(course):
    course.ends("w1")
    course.runs("gang", 0, 1, 2)
    a_gang(course, 1, 1_980)
    assert course.told == []

    a_gang(course, 22 / 60)

    assert course.words == [("TrendFound", "straggler", 2)]
    (told,) = course.told
    assert (told.value, told.limit) == (1_200, 1_782)
    course.ends("gang")
    a_gang(course, 1 / 30)
    assert course.words[1:] == [("TrendEnded", "straggler", 2)]


def test_a_member_throttled_alone_straggles(course):
    course.ends("w1")
    course.runs("gang", 0, 1, 2)

    a_gang(course, 1, 1_980, throttled=(1,))

    assert course.words == [("TrendFound", "straggler", 1)]


def test_gpus_of_different_work_are_no_gang(course):
    course.runs("w2", 1)
    course.runs("w3", 2)

    a_gang(course, 1)

    assert course.told == []


def test_clocks_of_the_work_before_say_nothing_of_a_gang(course):
    course.runs("w2", 1)
    course.runs("w3", 2)
    a_gang(course, 1)
    for name in ("w1", "w2", "w3"):
        course.ends(name)

    course.runs("gang", 0, 1, 2)
    a_gang(course, 1, 1_980)

    assert course.told == []


def test_a_gang_is_judged_over_its_nodes_by_the_first_of_them(course):
    course.read(b.resized(4, 3, 1, course.at_ms))
    wide(course, 40, n2=900)

    assert [(one.node, one.trend) for one in course.told] == [("n2", Trend.STRAGGLER)]


def test_what_is_left_alone_of_a_gang_does_not_straggle(course):
    course.read(b.resized(4, 3, 1, course.at_ms))
    wide(course, 40, n1=900)
    course.read(b.resized(5, 1, 2, course.at_ms))

    wide(course, 40, n1=900)

    assert course.words == [("TrendFound", "straggler", 0), ("TrendEnded", "straggler", 0)]


async def test_what_is_open_is_known_after_a_restart_and_its_end_is_told(course):
    course.leaks(8, 500)
    await course.restart()
    assert course.shown == pytest.approx(500, rel=0.05)

    course.leaks(3, 500, from_mib=14_000)
    assert len(course.told) == 1, "too little is known yet"
    course.ends("w1")
    course.report()

    assert course.words == [("TrendFound", "leak", 0), ("TrendEnded", "leak", 0)]
    assert course.handler.memory.trends == {}


def an_inventory(*uuids: str, generation: int = 1) -> nodes.NodeInventoryReported:
    gpus = tuple(Gpu(index=at, uuid=one, memory_mib=80) for at, one in enumerate(uuids))
    amounts: dict[str, Any] = {"cpu_milli": 1, "memory_mib": 1, "product": "H100"}
    node = Node(name="n1", flavor="h100", gpus=gpus, **amounts)
    return nodes.NodeInventoryReported(node=node, generation=generation)


def test_a_gpu_in_the_place_of_another_begins_anew(course):
    course.send(an_inventory("a", "b"))
    course.passes(20)
    course.passes(2, temperature_celsius=(70, 60))
    course.send(an_inventory("a", "b"))
    assert course.words == [("TrendFound", "heat", 0), ("TrendFound", "heat", 1)]

    course.send(an_inventory("a", "c", generation=2))
    course.passes(2, temperature_celsius=(70, 60))

    assert course.words[2:] == [("TrendEnded", "heat", 1)]


def test_a_uuid_that_was_not_known_is_no_other_gpu(course):
    course.send(an_inventory("", "b"))
    course.passes(20)

    course.send(an_inventory("a", "b", generation=2), an_inventory("a", "b", "c", generation=3))
    course.passes(2, temperature_celsius=(70, 60))

    assert course.words == [("TrendFound", "heat", 0), ("TrendFound", "heat", 1)]


def test_of_a_node_that_is_gone_all_is_over(course):
    course.leaks(8, 500)

    course.send(nodes.NodeRemoved(node="n1", generation=9))

    assert course.words == [("TrendFound", "leak", 0), ("TrendEnded", "leak", 0)]
    course.send(nodes.NodeRemoved(node="n1", generation=10))
    assert len(course.told) == 2


def test_a_gpu_that_is_not_read_for_a_while_keeps_its_evidence(course):
    course.leaks(4, 500)
    nothing = {"memory_used_mib": (0, 0), "utilization_percent": (0, 0)}
    course.passes(0.2, unread=(0,), **nothing)

    course.leaks(3, 500, from_mib=12_100)

    assert course.words == [("TrendFound", "leak", 0)]


def test_what_the_driver_does_not_tell_is_no_evidence(course):
    course.passes(30, temperature_celsius=(0, 0), power_watts=(0, 0), pcie_replays=(-1, -1))

    courses = course.handler._trends._courses["n1"].gpus
    assert course.told == []
    assert [courses[0].heat_points(), courses[0].replay_points()] == [[], []]


def test_what_is_kept_of_a_gpu_is_bounded(course):
    course.passes(24 * 8, power_watts=(100_000, 60))

    one = course.handler._trends._courses["n1"].gpus[0]
    assert {name: len(column) for name, column in one._columns.items()} == {
        name: count for name, (_, count) in KEPT.items()
    }
    assert len(one._past_celsius) == len(one._past_watts) == heat.PAST_POINTS_MAX
    assert set(one._past_watts) == {SHORT_MAX}
    assert len(one._readings) <= 7 * POINT_MS // 5_000


def test_the_past_has_a_point_of_each_half_hour(course):
    course.passes(10)

    past = course.handler._trends._courses["n1"].gpus[0]._past_celsius
    assert 19 <= len(past) <= 20


def test_reports_each_second_are_read_each_five():
    course = Course()
    for second in range(90):
        at_ms = course.at_ms + 1_000 * second
        fact = nodes.GpuUsageReported(
            node="n1",
            at_ms=at_ms,
            utilization_percent=(1,),
            memory_used_mib=(1,),
            temperature_celsius=(1,),
            power_watts=(1,),
        )
        course.send(fact)

    assert len(course.handler._trends._courses["n1"].gpus[0]._readings) == 7 * 18


def test_a_node_with_other_gpus_begins_anew(course):
    course.passes(1)

    course.report(
        utilization_percent=(1,),
        memory_used_mib=(1,),
        temperature_celsius=(1,),
        power_watts=(1,),
    )

    (one,) = course.handler._trends._courses["n1"].gpus
    assert one.memory_points() == []
