"""Heat, leaks and mute agents of a simulated machine, in its reports of use."""

from __future__ import annotations

import pytest

from shared.core.health.events import HealthEventKind
from shared.core.model.nouns import Gpu, Node
from shared.runtime.reporter import Pace, Reporter
from shared.simulator.disorders import CELSIUS_MAX, Disorder
from shared.simulator.machine import Machine, Occupancy

NOW = 1_700_000_000_000
MINUTE, HOUR = 60_000, 3_600_000


def a_machine(name: str = "n1") -> Machine:
    gpus = tuple(Gpu(index=index, uuid=f"u{index}", memory_mib=80_000) for index in range(2))
    node = Node(name=name, flavor="f", product="p", cpu_milli=1, memory_mib=1, gpus=gpus)
    machine = Machine(node, now_ms=NOW, seed=0)
    machine.occupy({0: Occupancy(1000, 0, 0), 1: Occupancy(1000, 0, 0)})
    return machine


def test_a_hot_gpu_becomes_hotter_up_to_a_limit_and_its_neighbour_does_not():
    machine = a_machine()
    usual = machine.usage(NOW).temperature_celsius

    assert machine.disorder(1, NOW, Disorder.THERMAL)

    celsius = [machine.usage(NOW + minutes * MINUTE).temperature_celsius for minutes in (0, 1, 9)]
    assert [usual[1], usual[1] + 30, CELSIUS_MAX] == [one[1] for one in celsius]
    assert {usual[0]} == {one[0] for one in celsius}
    assert [(), (1,)] == [machine.usage(NOW + at * MINUTE).throttled for at in (1, 9)]


def test_an_agent_tells_of_heat_once_and_again_after_a_reset():
    machine = a_machine()
    machine.disorder(1, NOW, Disorder.THERMAL)

    def told(minutes: int) -> list[tuple[int, str, int]]:
        machine.usage(NOW + minutes * MINUTE)
        return [(one.gpu, one.kind, one.code) for one in machine.changes()]  # type: ignore[union-attr]

    assert [] == told(3)
    assert [(1, "hot", CELSIUS_MAX)] == told(4)
    assert [] == told(12)
    assert [(1, "overheated", CELSIUS_MAX)] == told(13)
    assert [] == told(60)
    machine.tell(1, NOW, HealthEventKind.RETURNED)
    machine.disorder(1, NOW + HOUR, Disorder.THERMAL)
    machine.changes()
    assert [(1, "hot", CELSIUS_MAX)] == told(64)


def test_memory_that_leaks_rises_by_the_hour_and_not_beyond_the_board():
    machine = a_machine()
    machine.disorder(0, NOW, Disorder.LEAK)

    used = [machine.usage(NOW + hours * HOUR).memory_used_mib for hours in (0, 3, 90)]

    assert [72_000, 75_000, 80_000] == [one[0] for one in used]
    assert {72_000} == {one[1] for one in used}


def test_the_same_disorder_again_does_not_begin_anew():
    machine = a_machine()
    machine.disorder(0, NOW, Disorder.LEAK)
    machine.disorder(0, NOW + HOUR, Disorder.LEAK)

    assert 74_000 == machine.usage(NOW + 2 * HOUR).memory_used_mib[0]


def test_a_reset_ends_what_grows_in_its_gpu_alone():
    machine = a_machine()
    for gpu in range(2):
        machine.disorder(gpu, NOW, Disorder.LEAK)
        machine.disorder(gpu, NOW, Disorder.THERMAL)

    machine.tell(0, NOW + MINUTE, HealthEventKind.RETURNED)

    later = machine.usage(NOW + HOUR)
    assert (72_000, 73_000) == later.memory_used_mib
    assert (32, CELSIUS_MAX) == later.temperature_celsius


def test_another_sign_ends_nothing():
    machine = a_machine()
    machine.disorder(0, NOW, Disorder.LEAK)
    machine.mute(NOW, seconds=0)

    machine.tell(0, NOW, HealthEventKind.XID, code=48)

    assert machine.is_mute(NOW + HOUR)
    assert 73_000 == machine.usage(NOW + HOUR).memory_used_mib[0]


def test_a_gpu_that_is_not_there_has_no_disorder():
    assert not a_machine().disorder(2, NOW, Disorder.LEAK)


def test_a_mute_agent_speaks_again_after_its_time_or_a_reset():
    timed, untimed = a_machine(), a_machine()
    timed.mute(NOW, seconds=60)
    untimed.mute(NOW, seconds=0)

    assert timed.is_mute(NOW + 59_999)
    assert not timed.is_mute(NOW + 60_000)
    assert untimed.is_mute(NOW + 10**12)
    untimed.tell(0, NOW, HealthEventKind.RETURNED)
    assert not untimed.is_mute(NOW)


def test_two_events_of_one_kind_in_one_millisecond_are_two_reports():
    machine = a_machine()
    for _ in range(2):
        machine.tell(0, NOW, HealthEventKind.XID, code=74)

    assert [NOW, NOW + 1] == [one.at_ms for one in machine.changes()]  # type: ignore[union-attr]


class Log:
    def __init__(self) -> None:
        self.keys: list[str] = []

    async def publish(self, rows) -> None:
        self.keys += [row.key for row in rows]

    async def close(self) -> None:
        pass


class FleetClock:
    def now_ms(self) -> int:
        return NOW

    def monotonic_seconds(self) -> float:
        return 0.0


@pytest.mark.parametrize(("silent", "told"), [("n1", ["n2"]), ("", ["n1", "n2"])])
async def test_of_a_mute_node_no_use_is_told_and_of_the_others_it_is(silent, told):
    machines = {name: a_machine(name) for name in ("n1", "n2")}
    log = Log()
    if silent:
        machines[silent].mute(NOW, seconds=0)
    reporter = Reporter(
        probes=list(machines.values()),
        publisher=log,
        clock=FleetClock(),
        pace=Pace(usage_seconds=1),
        mute=lambda name: machines[name].is_mute(NOW),
    )

    await reporter.tell_usage(1)

    assert told == log.keys
