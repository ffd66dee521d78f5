"""Where GPU-hours go: what is told of attempts by day, before and after restarts and kills."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from services.monitoring import use, use_memory
from shared.adapters.clock import SystemClock
from shared.adapters.memory_log import MemoryLog, MemorySubscription
from shared.core.model.nouns import GpuShare
from shared.core.quota.cost import DAY_MS
from shared.core.quota.prices import DatedPrice, Purchase
from shared.events import nodes, topics, workloads
from shared.events.envelope import Received
from shared.events.usage import AttemptUse, UsageTold
from shared.ports.store import Restored
from shared.runtime.dedupe import RecentIds
from shared.runtime.handler import Outcome
from shared.runtime.polling import Polling
from tests.support.protocol import a_record
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

SECOND = 1_000_000
"""Milli-GPU milliseconds of one GPU in a second."""
START = b.START_MS // DAY_MS * DAY_MS + 12 * 3_600_000


class Fleet(Monitoring):
    """Messages by their second, and the newest that is told of each attempt and day."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[tuple[str, int, int, int], AttemptUse] = {}
        self.told_count = 0

    def at(self, second: float, *payloads: Any, committed: bool = True) -> None:
        at_ms = START + round(second * 1_000)
        self.clock.ms = at_ms
        messages = [self._message(one, at_ms) for one in payloads]
        outcome = self.handler.decide(messages, at_ms)
        if committed:
            self._apply(outcome)

    async def read_log(self, story: Sequence[tuple[int, Any]]) -> None:
        """What lies in the log by its second when monitoring begins, each payload on its topic."""
        log = MemoryLog()
        for second, payload in story:
            message = self._message(payload, START + second * 1_000)
            records = log.records.setdefault((message.topic, 0), [])
            record = a_record(message.event, len(records), topic=message.topic)
            records.append(replace(record, timestamp_ms=START + second * 1_000))
        polling = Polling(
            handler=self.handler,
            seen=_none_of_them,
            subscription=MemorySubscription(log),
            clock=SystemClock(),
            batch_messages_max=500,
        )
        polling.forget(Restored(epoch=1))
        await polling.assign()
        while raw := await polling.gather():
            batch = await polling.sort_out(raw, RecentIds())
            self._apply(self.handler.decide(batch.fresh, 0))

    def _apply(self, outcome: Outcome) -> None:
        self.tables.apply(outcome.writes)
        for emit in outcome.emits:
            self._told(emit)

    def _message(self, payload: Any, at_ms: int) -> Received:
        if isinstance(payload, nodes.GpuUsageReported):
            return b.received(b.replace_time(payload, at_ms), at_ms)
        return b.received(payload, at_ms)

    def _told(self, emit: Any) -> None:
        if isinstance(emit.payload, UsageTold):
            assert emit.topic is topics.IDLENESS_FACTS
            self.told_count += len(emit.payload.attempts)
            for one in emit.payload.attempts:
                self.rows[one.workload_id, one.attempt, one.resizes, one.day] = one

    def place(self, second: float, workload_id: str = "w1", **more: Any) -> None:
        at_ms = START + round(second * 1_000)
        self.at(second, b.placed(2, workload_id, at_ms=at_ms, **more))

    def end(self, second: float, workload_id: str = "w1", **more: Any) -> None:
        at_ms = START + round(second * 1_000)
        self.at(second, b.released(workloads.WorkloadSucceeded, 9, at_ms, workload_id, **more))

    def amounts(self, workload_id: str = "w1", unit: int = SECOND) -> tuple[float, float, float]:
        own = [one for one in self.rows.values() if one.workload_id == workload_id]
        parts = ("used", "unused", "unmeasured")
        used, unused, unmeasured = (sum(getattr(one, part) for one in own) for part in parts)
        return used / unit, unused / unit, unmeasured / unit

    def seconds(self, part: str) -> float:
        name = f"muster_team_gpu_seconds_{part}_total"
        return self.value(name, team="vision", flavor="h100") or 0


async def _none_of_them(ids: Sequence[str]) -> set[str]:
    """Ids that the inbox has."""
    return set()


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_reports_part_what_is_held_into_used_and_unused(fleet: Fleet):
    fleet.at(0, b.usage(0))
    fleet.place(5)
    for second, percent in ((10, 40), (20, 80), (30, 0)):
        fleet.at(second, b.usage(percent))
    fleet.end(35)

    assert (12, 18, 0) == fleet.amounts()
    (row,) = fleet.rows.values()
    assert row.ended
    assert ("vision", "vision-queue", "h100", START // DAY_MS) == (
        row.team, row.queue, row.flavor, row.day,
    )  # fmt: skip


def test_a_report_counts_for_a_minute_and_what_is_never_reported_is_unmeasured(fleet: Fleet):
    fleet.place(0)
    fleet.place(0, "w2", node="n2")
    fleet.at(10, b.usage(50))
    fleet.at(100, b.usage(50))
    fleet.end(110)
    fleet.end(110, "w2")

    assert (35, 35, 40) == fleet.amounts()
    assert (0, 0, 110) == fleet.amounts("w2")


def test_of_a_shared_gpu_each_has_its_part_of_the_time_it_is_there(fleet: Fleet):
    half = (GpuShare(index=0, mask=0, milli=500, memory_mib=0),)
    fleet.at(0, b.usage(40))
    fleet.place(0, "w1", shares=half)
    fleet.place(10, "w2", shares=half)
    fleet.end(20, "w1")
    fleet.at(30, b.usage(40))
    fleet.end(30, "w2")

    assert (4 + 2, 4, 0) == fleet.amounts("w1")
    assert (2 + 4, 4, 0) == fleet.amounts("w2")


def test_a_gang_of_another_size_is_told_as_the_ledger_charges_it(fleet: Fleet):
    for node in ("n1", "n2", "n3"):
        fleet.at(0, b.usage(100, node=node))
    fleet.place(0)
    fleet.at(10, b.resized(4, 3, 1, START + 10_000))
    fleet.end(20, released_resizes=1)

    sizes = {key[1:3]: one.used / SECOND for key, one in fleet.rows.items()}
    assert {(1, 0): 10, (1, 1): 30} == sizes


def test_midnight_parts_an_attempt_and_each_day_is_told(fleet: Fleet):
    half_day = DAY_MS // 2_000
    fleet.place(half_day - 30)
    fleet.at(half_day - 20, b.usage(100))
    fleet.at(half_day + 10, b.usage(0))
    fleet.end(half_day + 40)

    by_day = {one.day - START // DAY_MS: one for one in fleet.rows.values()}
    assert (20 * SECOND, 0, 10 * SECOND) == (
        by_day[0].used, by_day[0].unused, by_day[0].unmeasured,
    )  # fmt: skip
    assert (10 * SECOND, 30 * SECOND, 0) == (
        by_day[1].used, by_day[1].unused, by_day[1].unmeasured,
    )  # fmt: skip


def test_reports_that_are_read_before_the_begin_count_for_it(fleet: Fleet):
    half = (GpuShare(index=0, mask=0, milli=500, memory_mib=0),)
    fleet.at(0, b.usage(40))
    fleet.place(5, "w1", shares=half)
    fleet.at(10, b.usage(20))
    fleet.at(20, b.usage(40))
    fleet.at(21, b.placed(2, "w2", at_ms=START + 5_000, shares=half))
    fleet.end(30, "w1")
    fleet.end(30, "w2")

    assert (1 + 1 + 2, 8.5, 0) == fleet.amounts("w2")


def test_an_end_that_is_read_after_a_later_report_is_held_to_the_charge(fleet: Fleet):
    fleet.at(0, b.usage(100))
    fleet.place(0)
    fleet.at(10, b.usage(0))
    fleet.at(20, b.usage(0))
    fleet.at(21, b.released(workloads.WorkloadSucceeded, 9, START + 15_000))

    assert (10, 5, 0) == fleet.amounts()


def test_what_goes_on_is_told_once_a_minute_and_what_is_told_too_far_is_taken_back(fleet: Fleet):
    fleet.place(0)
    for second in range(10, 200, 10):
        fleet.at(second, b.usage(50))

    assert 3 == fleet.told_count
    assert 180 == sum(fleet.amounts())
    late = b.released(workloads.WorkloadSucceeded, 9, START + 100_000)
    fleet.at(200, late)
    assert 100 == sum(fleet.amounts())


def test_a_day_that_was_told_too_early_is_taken_back(fleet: Fleet):
    night = DAY_MS // 2_000
    fleet.place(night - 30)
    fleet.at(night + 60, b.usage(50))
    assert 2 == len(fleet.rows)
    before = b.released(workloads.WorkloadSucceeded, 9, START + night * 1_000 - 10_000)
    fleet.at(night + 61, before)

    assert (0, 0, 20) == fleet.amounts()
    assert all(one.ended for one in fleet.rows.values())


def test_what_no_report_reaches_is_counted_when_it_ends(fleet: Fleet):
    fleet.at(10, b.usage(50))
    fleet.at(11, b.placed(2, at_ms=START + 5_000))
    fleet.end(20)

    parts = {part: fleet.seconds(part) for part in ("used", "unused", "unmeasured")}
    assert {"used": 5, "unused": 5, "unmeasured": 5} == parts
    assert (5, 5, 5) == fleet.amounts()


def test_an_older_report_changes_nothing(fleet: Fleet):
    fleet.place(0)
    fleet.at(10, b.usage(100))
    fleet.at(5, b.usage(0))
    fleet.end(20)

    assert (10, 0, 10) == fleet.amounts()


def test_many_attempts_are_told_less_often(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(use, "TOLD_PER_SECOND", 1)
    for number in range(90):
        fleet.place(0, f"w{number}", node=f"n{number}")
    for second in range(10, 200, 10):
        fleet.at(second, b.usage(50))

    assert 2 * 90 == fleet.told_count


async def test_a_day_that_is_over_is_closed_and_told_no_more(fleet: Fleet):
    fleet.place(0)
    fleet.at(10, b.usage(100))
    hours = 12 + 6
    fleet.at(hours * 3_600, b.usage(100))
    fleet.at(hours * 3_600 + 61, b.usage(100))
    memory = fleet.handler.memory.use

    assert memory.accounts["w1"].day == START // DAY_MS + 1
    assert [START // DAY_MS + 1] == list(memory.nodes["n1"].sums["w1"])
    before = {part: fleet.seconds(part) for part in use_memory.Sums.__struct_fields__}
    assert 60 + 60 == before["used"]
    await fleet.restart()
    after = {part: fleet.seconds(part) for part in before}
    assert before == after
    told = fleet.told_count
    fleet.end(hours * 3_600 + 70)
    assert told + 1 == fleet.told_count
    assert hours * 3_600 + 70 == sum(fleet.amounts())


async def test_counters_sum_to_what_is_allocated_and_go_on_after_a_restart(fleet: Fleet):
    fleet.place(0)
    for second in (10, 20, 30):
        fleet.at(second, b.usage(25))
    await fleet.restart()
    fleet.at(40, b.usage(25))
    assert 7.5 == fleet.seconds("used")
    fleet.end(50)

    parts = {part: fleet.seconds(part) for part in ("used", "unused", "unmeasured")}
    assert {"used": 10, "unused": 30, "unmeasured": 10} == parts
    assert 50 == fleet.value("muster_team_gpu_seconds_total", team="vision", flavor="h100")


async def test_joules_are_those_of_the_boards_by_what_is_held_also_after_a_restart(fleet: Fleet):
    def draws(*watts: int) -> Any:
        return replace(b.usage(50, 50), power_watts=watts)

    half = (GpuShare(index=1, mask=0, milli=500, memory_mib=0),)
    fleet.at(0, draws(100, 400))
    fleet.place(0)
    fleet.at(10, draws(300, 400))
    fleet.at(20, draws(0, 0))
    fleet.at(21, b.placed(2, "w2", at_ms=START + 5_000, shares=half))
    fleet.end(30)

    for _ in range(2):
        labels = {"team": "vision", "flavor": "h100"}
        assert 4_000 + 3_000 == fleet.value("muster_team_energy_joules_total", **labels)
        await fleet.restart()


async def test_the_price_is_that_of_its_beginning_also_after_a_restart(fleet: Fleet):
    fleet.at(0, b.a_flavor(2_000_000))
    fleet.place(1)
    fleet.at(2, b.a_flavor(9_000_000, version=2), b.a_flavor(7, version=2))
    await fleet.restart()
    fleet.end(3)
    fleet.place(4, "w2")
    fleet.end(5, "w2")

    prices = [one.price_microdollars_per_gpu_hour for one in fleet.rows.values()]
    assert [2_000_000, 9_000_000] == prices


async def test_the_price_of_a_later_day_and_its_purchase_hold_from_then(fleet: Fleet):
    begin = datetime.fromtimestamp(START / 1_000 + 30, UTC)
    dated = DatedPrice(
        since=f"{begin:%Y-%m-%dT%H:%M:%S}Z", microdollars_per_gpu_hour=3, purchase=Purchase.OWNED
    )
    fleet.at(0, b.a_flavor(2, prices=(dated,), purchase=Purchase.RESERVED))
    fleet.place(1)
    fleet.end(60)
    await fleet.restart()
    fleet.place(61, "w2")
    fleet.end(62, "w2")

    told = [(one.price_microdollars_per_gpu_hour, one.purchase) for one in fleet.rows.values()]
    assert [(2, Purchase.RESERVED), (3, Purchase.OWNED)] == told


def test_the_namespace_is_the_teams_where_none_is_named(fleet: Fleet):
    fleet.at(0, b.queued())
    fleet.place(1)
    fleet.end(2)

    assert ["vision"] == [one.namespace for one in fleet.rows.values()]


async def test_the_reading_of_an_idle_node_counts_for_what_begins_after_a_restart(fleet: Fleet):
    fleet.at(0, b.usage(40))
    await fleet.restart()
    fleet.place(5)
    fleet.end(15)

    assert (4, 6, 0) == fleet.amounts()


async def test_of_a_node_that_is_gone_nothing_is_known_but_what_is_held_there(fleet: Fleet):
    fleet.at(0, b.a_node(), b.usage(40), b.a_node("n2"), b.usage(40, node="n2"))
    fleet.place(0)
    fleet.at(10, *(nodes.NodeRemoved(node=name, generation=2) for name in ("n1", "n2", "n3")))
    memory = fleet.handler.memory.use
    assert ["n1"] == list(memory.nodes)
    fleet.end(20)

    assert {} == memory.nodes
    await fleet.restart()
    assert {} == fleet.handler.memory.use.nodes
    assert (8, 12, 0) == fleet.amounts()


async def test_what_lay_in_the_log_when_it_began_is_all_measured(fleet: Fleet):
    """Hours of reports beside a begin and an end, on topics that are read each at its pace."""
    story: list[tuple[int, Any]] = [(second, b.usage(25)) for second in range(0, 6_000, 10)]
    story.append((3_000, b.placed(2, at_ms=START + 3_000_000)))
    end = b.released(workloads.WorkloadSucceeded, 9, START + 5_000_000)
    story.append((5_000, end))

    await fleet.read_log(sorted(story, key=lambda one: one[0]))

    assert (500, 1_500, 0) == fleet.amounts()


async def test_a_kill_at_any_unit_of_work_loses_nothing(fleet: Fleet):
    """Of what is not committed every message is read again."""
    random, calm = Random(7), Fleet()
    story: list[tuple[float, Any]] = []
    for second in range(0, 600, 10):
        story += [(second, b.usage(random.randrange(101), node=node)) for node in ("n1", "n2")]
    placed = b.placed(2, at_ms=START + 3_000)
    other = b.placed(2, "w2", at_ms=START + 33_000, node="n2")
    ended = b.released(workloads.WorkloadSucceeded, 9, START + 431_000)
    story += [(3, placed), (33, other), (431, ended)]
    for when, payload in sorted(story, key=lambda one: one[0]):
        calm.at(when, payload)
        if random.random() < 0.3:
            fleet.at(when, payload, committed=False)
            await fleet.restart()
        fleet.at(when, payload)

    for one in (calm, fleet):
        one.end(600, "w2")
    assert calm.amounts("w1", 1) == fleet.amounts("w1", 1)
    assert calm.amounts("w2", 1) == fleet.amounts("w2", 1)
    assert 567 == sum(fleet.amounts("w2"))


async def test_work_from_before_is_passed_over(fleet: Fleet):
    fleet.place(0)
    kinds = defaultdict(list)
    for kind, key in fleet.handler.memory.journal._live:
        kinds[kind].append(key)
    for kind in (use_memory.ACCOUNT, use_memory.NODE_USE):
        for key in kinds[kind]:
            fleet.handler.memory.journal.drop(kind, key)
    fleet.tables.apply(fleet.handler.memory.journal.writes())
    await fleet.restart()

    fleet.at(10, b.usage(100))
    fleet.at(20, b.usage(100))
    fleet.end(30)

    assert {} == fleet.rows
