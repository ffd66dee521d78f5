"""`muster-ops chaos friday`: when, which node, and what its end cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from operations.chaos.cost import Work, outcomes_of, report_of
from operations.chaos.document import read
from operations.chaos.faults import Fault, Strike
from operations.chaos.friday import FridayRules, check_hours, chosen, rules_of
from operations.chaos.friday_run import as_it_stands, carried_out, planned
from operations.chaos.hours import DAYS, WorkingHours, minute_of
from operations.chaos.places import Place
from operations.chaos.view import lines_of_friday, lines_of_plan
from operations.failures import Failure, Refused

BERLIN = ZoneInfo("Europe/Berlin")
HOURS = WorkingHours(zone=BERLIN, days=frozenset({4}), from_minute=600, to_minute=960)
RULES = FridayRules(
    hours=HOURS, flavors=frozenset({"h100"}), nodes=frozenset(), working_nodes_max=1
)
FRIDAY = datetime(2026, 11, 27, 9, 30, tzinfo=UTC)  # 10:30 in Berlin
FRIDAY_MS = int(FRIDAY.timestamp() * 1000)
HOUR_MS = 3_600_000


def a_place(name: str, *, ready: bool = True, flavor: str = "h100") -> Place:
    return Place(name=name, gpus=8, flavor=flavor, ready=ready)


def some_work(*nodes: str, gpus: int = 8, ran_ms: int = HOUR_MS, **more: int) -> Work:
    return Work(
        id="w1",
        team="red",
        name="train",
        state="running",
        attempt=1,
        gpu_milli=gpus * 1000,
        nodes=frozenset(nodes),
        running_at_ms=FRIDAY_MS - ran_ms,
        **more,
    )


def moved(work: Work, *nodes: str, attempt: int = 2, after_ms: int = 4_000) -> Work:
    return Work(
        id=work.id,
        team=work.team,
        name=work.name,
        state="running",
        attempt=attempt,
        gpu_milli=work.gpu_milli,
        nodes=frozenset(nodes),
        running_at_ms=FRIDAY_MS + after_ms,
    )


@pytest.mark.parametrize(
    ("at", "begins"),
    [
        ("2026-11-27T08:59:59+00:00", "2026-11-27T10:00:00+01:00"),
        ("2026-11-27T09:00:00+00:00", "2026-11-27T10:00:00+01:00"),
        ("2026-11-27T14:59:59+00:00", "2026-11-27T15:59:59+01:00"),
        ("2026-11-27T15:00:00+00:00", "2026-12-04T10:00:00+01:00"),
        ("2026-11-28T09:30:00+00:00", "2026-12-04T10:00:00+01:00"),
        # Between the two is the change of clocks of 2026-03-29.
        ("2026-03-27T15:00:00+00:00", "2026-04-03T10:00:00+02:00"),
        # At 23:30 of Thursday by UTC it is Friday in Berlin already.
        ("2026-11-26T23:30:00+00:00", "2026-11-27T10:00:00+01:00"),
    ],
)
def test_the_next_allowed_time_is_in_the_zone_of_the_document(at, begins):
    found = HOURS.next_open(datetime.fromisoformat(at))

    assert begins == found.isoformat()
    assert HOURS.is_open(found)


def test_outside_the_hours_nothing_is_taken_down_and_the_next_time_is_told():
    check_hours(RULES, FRIDAY)
    with pytest.raises(Failure) as raised:
        check_hours(RULES, datetime(2026, 11, 27, 22, 0, tzinfo=UTC))

    assert (
        "it is Friday 2026-11-27 23:00 (Europe/Berlin), outside the hours of the document;"
        " the next allowed time is Friday 2026-12-04 10:00 (Europe/Berlin)"
    ) == str(raised.value)


@pytest.mark.parametrize(
    ("value", "minute"),
    [("00:00", 0), ("10:30", 630), ("9:05", 545), (630, 630), ("24:00", 1440), (1440, 1440),
     ("24:01", None), ("10:60", None), (-1, None), (1441, None), (True, None), ("ten", None),
     (None, None), (10.5, None)],
)  # fmt: skip
def test_a_time_of_day_is_read_with_quotes_and_as_yaml_reads_it_without(value, minute):
    assert minute == minute_of(value)


def test_nodes_with_work_come_first_while_the_document_allows_one_more():
    places = [a_place("n1"), a_place("n2"), a_place("n3")]

    taken = {chosen(RULES, places, [some_work("n2", "n3")], f"{seed}").name for seed in range(40)}

    assert {"n2", "n3"} == taken


def test_when_as_many_are_down_as_the_document_allows_one_without_work_is_taken():
    places = [a_place("n1"), a_place("n2"), a_place("n3", ready=False)]

    taken = {chosen(RULES, places, [some_work("n2")], f"{seed}").name for seed in range(40)}

    assert {"n1"} == taken


def test_when_all_have_work_and_enough_are_down_none_is_taken():
    places = [a_place("n2"), a_place("n3", ready=False)]

    with pytest.raises(Failure) as raised:
        chosen(RULES, places, [some_work("n2")], "1")

    assert "every node that is up has work, 1 of the document's nodes are down" in str(
        raised.value
    )
    assert "muster-ops chaos up --node NODE" in str(raised.value)


def test_only_simulated_nodes_of_the_document_are_taken():
    places = [
        a_place("n1", flavor="a100"),
        Place(name="real", gpus=8, flavor="h100", simulated=False),
        a_place("down", ready=False),
    ]

    with pytest.raises(Failure, match="no simulated node that is up is covered"):
        chosen(RULES, places, [], "1")
    named = FridayRules(
        hours=HOURS, flavors=frozenset(), nodes=frozenset({"n1"}), working_nodes_max=0
    )
    assert "n1" == chosen(named, places, [], "1").name


def test_the_same_seed_takes_the_same_node():
    places = [a_place(f"n{number}") for number in range(50)]

    taken = [chosen(RULES, places, [], seed).name for seed in ("a", "a", "b")]

    assert taken[0] == taken[1] == chosen(RULES, places[::-1], [], "a").name
    assert taken[0] != taken[2]


def test_each_day_has_its_node():
    assert "2026-11-27" == RULES.day_of(int(datetime(2026, 11, 26, 23, 30, tzinfo=UTC).timestamp())
                                        * 1000)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "lost_gpu_hours"),
    [
        ({}, 8.0),
        ({"checkpoint_ms": HOUR_MS // 4 * 3}, 2.0),
        ({"checkpoint_ms": HOUR_MS}, 0.0),
        ({"checkpoint_ms": HOUR_MS, "restart_ms": HOUR_MS // 8}, 1.0),
        ({"ran_ms": 0}, 0.0),
    ],
)
def test_lost_is_what_ran_since_the_last_checkpoint_or_the_start(more, lost_gpu_hours):
    work = some_work("n1", **more)

    (outcome,) = outcomes_of("n1", [work], {}, FRIDAY_MS, FRIDAY_MS)

    assert lost_gpu_hours * HOUR_MS == outcome.lost_gpu_ms


def test_work_that_does_not_run_yet_loses_nothing():
    work = Work(
        id="w", team="t", name="n", state="placed", attempt=1, gpu_milli=8_000,
        nodes=frozenset({"n1"}), running_at_ms=FRIDAY_MS - HOUR_MS,
    )  # fmt: skip

    assert 0 == work.lost_gpu_ms(FRIDAY_MS)


def test_elsewhere_is_when_its_next_attempt_ran_on_other_nodes():
    work = some_work("n1", "n2")
    cases = {
        "still there": work,
        "elsewhere": moved(work, "n2", "n3"),
        "on the node again": moved(work, "n1"),
        "shrunk": moved(work, "n2", attempt=1),
    }

    found = {
        case: outcomes_of("n1", [work], {"w1": after}, FRIDAY_MS, FRIDAY_MS + 9_000)[
            0
        ].elsewhere_ms
        for case, after in cases.items()
    }

    assert {
        "still there": None, "elsewhere": 4_000, "on the node again": None, "shrunk": 9_000
    } == found  # fmt: skip


def test_a_report_counts_what_moved_ended_and_waits():
    works = [some_work("n1", gpus=gpus) for gpus in (8, 4, 2)]
    names = [Work(**{**{slot: getattr(one, slot) for slot in Work.__slots__}, "id": f"w{at}"})
             for at, one in enumerate(works)]  # fmt: skip
    after = {"w0": moved(names[0], "n2"), "w1": names[1]}

    report = report_of(
        "n1", outcomes_of("n1", names, after, FRIDAY_MS, FRIDAY_MS + 9_000), back=True
    )

    assert (3, 1, 1, 1, 14.0, 4.0) == tuple(
        report[name]
        for name in (
            "workloads", "moved", "ended", "waiting", "gpu_hours_lost", "seconds_until_elsewhere"
        )
    )  # fmt: skip
    lines = lines_of_friday(report)
    assert "n1: 1 of 3 workloads run elsewhere; 1 ended, 1 wait; 14.00 GPU-hours lost" == lines[0]
    assert ["train", "red", "8", "8.00", "4.0", "s", "running"] == lines[2].split()


class ManualClock:
    def __init__(self, at_ms: int = FRIDAY_MS) -> None:
        self.ms = at_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic_seconds(self) -> float:
        return self.ms / 1000

    async def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


class FakeSite:
    """One node with one gang, which runs elsewhere four seconds after it goes down."""

    def __init__(self, clock: ManualClock, *, returns: bool = True) -> None:
        self.clock = clock
        self.struck: list[tuple[Fault, str]] = []
        self.work = some_work("n1", "n2")
        self.returns = returns

    async def places(self) -> dict[str, Place]:
        return {"n1": a_place("n1"), "n3": a_place("n3")}

    async def holding(self) -> list[Work]:
        return [self.work]

    async def work_of(self, ids: Sequence[str]) -> dict[str, Work]:
        assert ["w1"] == ids
        elsewhere = self.returns and self.clock.ms >= FRIDAY_MS + 4_000
        return {"w1": moved(self.work, "n2", "n3") if elsewhere else self.work}

    async def strike(self, strike: Strike, place: Place) -> None:
        self.struck.append((strike.fault, place.name))


async def a_friday(clock: ManualClock, site: FakeSite, *, leave_down: bool = False):
    told: list[str] = []
    return await carried_out(
        site,
        RULES,
        "1",
        clock,
        wait_seconds=60,
        leave_down=leave_down,
        tell=told.append,
        sleep=clock.sleep,
    ), told


async def test_a_friday_takes_a_node_down_reports_its_cost_and_brings_it_back():
    clock = ManualClock()
    site = FakeSite(clock)

    report, told = await a_friday(clock, site)

    assert [(Fault.NODE, "n1"), (Fault.UP, "n1")] == site.struck
    assert ["n1 goes down with 1 workloads", "n1 is back"] == told
    assert FRIDAY_MS + 4_000 == clock.ms
    assert (1, 0, 8.0, 4.0, True) == tuple(
        report[name]
        for name in ("moved", "waiting", "gpu_hours_lost", "seconds_until_elsewhere", "back")
    )


async def test_a_node_that_is_to_stay_down_does():
    clock = ManualClock()
    site = FakeSite(clock)

    report, _ = await a_friday(clock, site, leave_down=True)

    assert [(Fault.NODE, "n1")] == site.struck
    assert not report["back"]


async def test_work_that_is_waited_for_in_vain_is_told_and_the_node_is_back():
    clock = ManualClock()
    site = FakeSite(clock, returns=False)

    report, _ = await a_friday(clock, site)

    assert FRIDAY_MS + 60_000 == clock.ms
    assert (1, None) == (report["waiting"], report["seconds_until_elsewhere"])
    assert (Fault.UP, "n1") == site.struck[-1]


async def test_the_node_is_back_although_the_database_is_away():
    clock = ManualClock()
    site = FakeSite(clock)

    async def away(ids: Sequence[str]) -> dict[str, Work]:
        raise Failure("database: away")

    site.work_of = away
    with pytest.raises(Failure, match="away"):
        await a_friday(clock, site)

    assert [(Fault.NODE, "n1"), (Fault.UP, "n1")] == site.struck


async def test_outside_the_hours_nothing_is_touched():
    clock = ManualClock(FRIDAY_MS - 24 * HOUR_MS)
    site = FakeSite(clock)

    with pytest.raises(Failure, match="next allowed time is Friday 2026-11-27 10:00"):
        await a_friday(clock, site)

    assert [] == site.struck


async def test_a_dry_run_tells_node_time_and_cost_and_touches_nothing():
    clock = ManualClock()
    site = FakeSite(clock)

    plan = as_it_stands(await planned(site, RULES, "1"), RULES, FRIDAY_MS + 24 * HOUR_MS)

    assert {
        "node": "n1",
        "flavor": "h100",
        "may_begin": "2026-12-04T10:00:00+01:00",
        "workloads": ["w1"],
        "gpu_hours_lost": 200.0,
    } == plan
    assert [] == site.struck
    assert "n1 (h100) would go down, from 2026-12-04T10:00:00+01:00 on;" in lines_of_plan(plan)[0]


def test_the_example_is_a_document():
    rules = read(Path("examples/friday.yaml"), rules_of)

    assert rules == RULES


FIELDS = "time_zone, days, from, to, flavors, nodes, working_nodes_max"
GOOD = 'time_zone: UTC\ndays: [friday]\nfrom: "10:00"\nto: "16:00"\nflavors: [h100]\n'


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("time_zone: UTC", "time_zone: Mars/Olympus"),
         "time_zone: must be a time zone such as Europe/Berlin or UTC (given: Mars/Olympus)"),
        (("time_zone: UTC\n", ""), "time_zone: must be a text"),
        (("[friday]", "[freitag]"), f"days[0]: must be one of {', '.join(DAYS)} (given: freitag)"),
        (("[friday]", "[]"), f"days: must name one of {', '.join(DAYS)} at least"),
        (('"10:00"', "ten"), 'from: must be a time such as "10:30" (given: ten)'),
        (('"16:00"', "10:00"), "to: must be later than from (given: 600)"),
        (("flavors: [h100]\n", ""), "flavors: must name one at least, or nodes must"),
        (("[h100]", "h100"), "flavors: must be a list of at most 10,000 texts (given: h100)"),
        (("UTC\n", "UTC\nworking_nodes_max: -1\n"),
         "working_nodes_max: must be a whole number from 0 to 1,000 (given: -1)"),
        (("UTC\n", "UTC\nnow: true\n"),
         f"now: is no field; there are {FIELDS} (given: True)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_document_is_told_with_field_rule_and_value(tmp_path, change, line):
    file = tmp_path / "friday.yaml"
    file.write_text(GOOD)
    assert read(file, rules_of) is not None
    file.write_text(GOOD.replace(*change))

    with pytest.raises(Refused) as raised:
        read(file, rules_of)

    assert [f"{file} is refused", f"  {line}"] == str(raised.value).splitlines()
