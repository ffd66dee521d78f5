"""Reports of use through monitoring, a real broker and PostgreSQL, until people read GPU-hours."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count as count_from
from itertools import groupby
from random import Random
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from muster.cli import focus
from muster.client import AsyncClient
from services.monitoring.handler import MonitoringHandler
from shared.core.model.nouns import GpuShare
from shared.core.quota.cost import DAY_MS
from shared.core.quota.prices import DatedPrice, Purchase
from shared.events import workloads
from shared.events.envelope import Received
from shared.events.usage import AttemptUse, UsageTold
from shared.runtime.handler import Outcome
from shared.runtime.settings import Settings
from tests.fixtures.servers import Database
from tests.support.agents import MonitoringProcess
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.running import running_handler
from tests.unit.monitoring import builders as b

NOON_MS = 20_758 * DAY_MS + DAY_MS // 2
MINUTE_MS = 60_000
KILL_TEST_SECONDS = int(os.environ.get("MUSTER_USAGE_KILL_SECONDS", "20"))
HOUR_MS = 60 * MINUTE_MS
EVENING = DatedPrice(
    since="2026-11-01T18:00:00Z", microdollars_per_gpu_hour=1_200_000, purchase=Purchase.OWNED
)
FULL, HALF = (1_000, 255), (500, 0)


class InItsTime(MonitoringHandler):
    """Monitoring for which the broker took each message when it says that it was so."""

    @override
    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        told = [
            msgspec.structs.replace(one, logged_ms=time_of(one.event.payload) or NOON_MS)
            for one in messages
        ]
        return super().decide(told, now_ms)


def time_of(payload: Any) -> int:
    names = ("at_ms", "placed_at_ms", "released_at_ms")
    return next((getattr(payload, name) for name in names if hasattr(payload, name)), 0)


def placed(workload_id: str, team: str, at_ms: int, *held: tuple[int, int], **more: Any) -> Any:
    shares = tuple(
        GpuShare(index=index, mask=mask, milli=milli, memory_mib=0)
        for index, (milli, mask) in enumerate(held)
    )
    return b.placed(2, workload_id, team, at_ms=at_ms, shares=shares, **more)


def ended(workload_id: str, team: str, at_ms: int) -> Any:
    return b.released(workloads.WorkloadSucceeded, 9, at_ms, workload_id, team)


def reports(node: str, *percent: int, begin_ms: int, minutes: int) -> list[Any]:
    return [
        b.usage(*percent, node=node, at_ms=begin_ms + minute * MINUTE_MS)
        for minute in range(minutes)
    ]


def told(facts: Sequence[Any]) -> list[Any]:
    return [(b.TOPIC_OF[type(one)], one) for one in facts]


@pytest.fixture
def settings(kafka: str, database: Database, topic_prefix: str) -> Settings:
    return Settings(
        kafka_bootstrap=kafka,
        database_url=database.url("monitoring"),
        topic_prefix=topic_prefix,
        log_level="error",
    )


async def test_a_made_month_is_told_to_the_cent_and_to_its_own_team(
    gateway: Gateway, settings: Settings, database: Database
) -> None:
    """Two H100 for ten hours at $2.50, half an A100 over midnight at $1.20."""
    night_ms = NOON_MS + DAY_MS // 2
    story = [
        *(b.queued(name, team) for name, team in (("w1", "vision"), ("w2", "speech"))),
        placed("w1", "vision", NOON_MS, FULL, FULL),
        *reports("n1", 25, 75, begin_ms=NOON_MS, minutes=480),
        ended("w1", "vision", NOON_MS + 10 * HOUR_MS),
        placed("w2", "speech", night_ms - HOUR_MS, HALF, flavor="a100", node="n2"),
        *reports("n2", 30, begin_ms=night_ms - HOUR_MS, minutes=120),
        ended("w2", "speech", night_ms + HOUR_MS),
    ]
    prices = [
        b.a_flavor(2_500_000, version=7, purchase=Purchase.RESERVED, prices=(EVENING,)),
        b.a_flavor(7_654_321, version=7, name="a100", prices=(EVENING,)),
    ]
    days = {"since": "2026-11-01", "until": "2026-12-01"}

    async def report(key: str | None = None, **query: str) -> Any:
        reply = await gateway.call("GET", "/v1/usage", params={**days, **query}, key=key)
        assert reply.status == 200, reply.body
        return reply.body

    async def is_told() -> bool:
        return bool((await report())["total"]["allocated_gpu_ms"] == 21 * HOUR_MS)

    await gateway.organise("vision", "speech")
    async with running_projection(gateway.settings), running_handler(settings, InItsTime()):
        await publish_facts(gateway.settings, told(prices), source="p", at_ms=NOON_MS - DAY_MS)
        await until(lambda: _are_priced(database))
        await _in_order(gateway, database, story)
        await until(is_told)

    by_team = {one["name"]: one for one in (await report())["items"]}
    assert ["vision", "speech"] == list(by_team)
    vision = by_team["vision"]
    assert (8 * HOUR_MS, 8 * HOUR_MS, 4 * HOUR_MS) == (
        vision["used_gpu_ms"], vision["unused_gpu_ms"], vision["unmeasured_gpu_ms"],
    )  # fmt: skip
    assert (50_000_000, 20_000_000) == (vision["cost_microdollars"], vision["unused_microdollars"])
    assert 1_200_000 == by_team["speech"]["cost_microdollars"]
    by_day = await report(by="day", team="speech")
    assert [("2026-11-01", HOUR_MS // 2), ("2026-11-02", HOUR_MS // 2)] == [
        (one["name"], one["allocated_gpu_ms"]) for one in by_day["items"]
    ]
    assert 51_200_000 == by_day_total(await report(by="flavor"))
    for by, names in (
        ("queue", ["vision-queue", "speech-queue"]),
        ("namespace", ["vision", "speech"]),
        ("flavor", ["h100", "a100"]),
        ("purchase", ["reserved", "owned"]),
        ("workload", ["w1", "w2"]),
    ):
        assert names == [one["name"] for one in (await report(by=by))["items"]]
    (only,) = (await report(by="workload", limit="1"))["items"]
    assert ("w1", "vision", "train") == (only["name"], only["team"], only["workload_name"])
    assert 1 == (await report(by="workload", limit="1"))["left_out"]

    by_label = (await report(by="label", label="project"))["items"]
    assert {"of-vision": 50_000_000, "of-speech": 1_200_000} == costs(by_label)
    await _is_billed(gateway, days)

    key = await gateway.key("speech", "viewer")
    assert ["w2"] == [one["name"] for one in (await report(key, by="workload"))["items"]]
    other = await gateway.call("GET", "/v1/usage", params={"team": "vision"}, key=key)
    assert other.status == 404


def costs(items: Sequence[Any]) -> dict[str, int]:
    return {one["name"]: one["cost_microdollars"] for one in items}


async def _is_billed(gateway: Gateway, days: dict[str, str]) -> None:
    """The same month as FOCUS, read in pages of one charge."""
    written = io.StringIO()
    async with AsyncClient(gateway.address, gateway.operator_key) as client:
        await focus.write(client.charges(**days), "site", written)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("muster.client.PAGE_ITEMS", 1)
            read = [one["workload_id"] async for one in client.charges(**days)]
    rows = list(csv.DictReader(io.StringIO(written.getvalue()), strict=True))
    assert [
        ("w1", "2026-11-01T00:00:00Z", "20.000000", "50.000000", "Committed"),
        ("w2", "2026-11-01T00:00:00Z", "0.500000", "0.600000", "Standard"),
        ("w2", "2026-11-02T00:00:00Z", "0.500000", "0.600000", "Standard"),
    ] == [
        (row["ResourceId"], row["ChargePeriodStart"], row["ConsumedQuantity"], row["BilledCost"],
         row["PricingCategory"]) for row in rows
    ]  # fmt: skip
    assert ["w1", "w2", "w2"] == read


def by_day_total(report: Any) -> int:
    return int(report["total"]["cost_microdollars"])


async def _are_priced(database: Database) -> bool:
    rows = "SELECT count(*) FROM monitoring.flavor_price WHERE version = 7"
    return database.execute(rows).strip() == "2"


async def _in_order(gateway: Gateway, database: Database, story: Sequence[Any]) -> None:
    """Topics are read each at its pace: what comes later is published once this was read."""
    written: Counter[str] = Counter()
    for number, (topic, group) in enumerate(groupby(story, lambda one: b.TOPIC_OF[type(one)])):
        facts = list(group)
        written[topic.name] += len(facts)
        await publish_facts(gateway.settings, told(facts), source=f"s{number}", at_ms=NOON_MS)
        await until(partial(_is_read, database, topic.name, written[topic.name]))


async def _is_read(database: Database, topic: str, count: int) -> bool:
    rows = database.execute(
        f"SELECT next_offset FROM monitoring.consumer_offset WHERE topic = '{topic}'"
    )
    return bool(rows.strip()) and int(rows) >= count


async def test_what_is_told_of_an_end_stands_and_told_twice_changes_nothing(
    gateway: Gateway,
) -> None:
    def use(used: int, at_ms: int, *, ended: bool = False) -> UsageTold:
        one = AttemptUse(
            workload_id="w1",
            attempt=1,
            team="vision",
            queue="q",
            flavor="h100",
            day=20_758,
            used=used,
            unused=0,
            unmeasured=0,
            ended=ended,
        )
        return UsageTold(attempts=(one,), at_ms=at_ms)

    other = msgspec.structs.replace(use(1_000, 1).attempts[0], workload_id="w2")
    others = UsageTold(attempts=(other,), at_ms=1)

    async def used() -> int:
        reply = await gateway.call("GET", "/v1/usage", params={"since": "2026-11-01"})
        return int(reply.body["total"]["used_gpu_ms"])

    async def reads(*facts: UsageTold, source: str) -> None:
        await publish_facts(gateway.settings, told(facts), source=source, at_ms=NOON_MS)

    async with running_projection(gateway.settings):
        await reads(use(7_000, 5), use(7_000, 5), use(3_000, 4), source="a")
        await until(lambda: _is(used, 7))
        await reads(use(5_000, 4, ended=True), source="b")
        await until(lambda: _is(used, 5))
        await reads(use(9_000, 9), use(1_000, 9, ended=True), source="c")
        await reads(others, source="d")
        await until(lambda: _is(used, 6))


async def _is(asked: Callable[[], Awaitable[int]], wanted: int) -> bool:
    return await asked() == wanted


@pytest.mark.parametrize(
    ("query", "field", "rule"),
    [
        ({"since": "2026-13-01"}, "since", "must be a day such as"),
        ({"since": "2026-11-01T00:00+01:00"}, "since", "must be a day such as"),
        ({"since": "2026-11-02", "until": "2026-11-02"}, "until", "1 to 400 days after since"),
        ({"since": "2024-11-02", "until": "2026-11-02"}, "until", "1 to 400 days after since"),
        ({"by": "label", "label": ""}, "label", "the key of a label with by=label"),
        ({"by": "team", "label": "a"}, "label", "the key of a label with by=label"),
        ({"by": "colour"}, "by", "must be one of team, queue"),
        ({"since": "0000-01-01"}, "since", "must be a day such as"),
        ({"limit": "0"}, "limit", "from 1 to 1000"),
        ({"from": "2026-11-01"}, "from", "unknown query parameter"),
    ],
)
async def test_what_cannot_be_asked_is_told_with_field_value_and_rule(
    gateway: Gateway, query: dict[str, str], field: str, rule: str
) -> None:
    reply = await gateway.call("GET", "/v1/usage", params=query)

    (error,) = reply.body["errors"]
    assert (400, field, query[field]) == (reply.status, error["field"], error["value"])
    assert rule in error["rule"]


class Killed(MonitoringProcess):
    """The monitoring process that is killed, and what it tells."""

    def sums(self) -> dict[str, int]:
        rows = self.database.execute(
            "SELECT workload_id, sum(used + unused + unmeasured) FROM gateway.gpu_usage GROUP BY 1"
        )
        return {one.split("|")[0]: int(one.split("|")[1]) for one in rows.split()}


@pytest.fixture
def killed(kafka: str, database: Database, topic_prefix: str) -> Iterator[Killed]:
    one = Killed(kafka, database, topic_prefix)
    yield one
    one.end(signal.SIGKILL)


@pytest.mark.timeout(120 + 2 * KILL_TEST_SECONDS)
async def test_kills_leave_the_sums_exact_and_nothing_unmeasured(
    gateway: Gateway, database: Database, killed: Killed
) -> None:
    """Idle before the first report, used from then on until half of the time is over."""
    random, count = Random(5), 6
    seconds, kill_seconds = KILL_TEST_SECONDS, min(KILL_TEST_SECONDS // 5, 20)

    async def tell(source: str, *facts: Any) -> None:
        await publish_facts(gateway.settings, told(facts), source=source, at_ms=now_ms())

    def now_ms() -> int:
        return int(datetime.now(UTC).timestamp() * 1_000)

    async with running_projection(gateway.settings):
        killed.start()
        await tell("first", *(b.usage(0, node=f"n{one}", at_ms=now_ms()) for one in range(count)))
        begin_ms = now_ms()
        await tell(
            "begin",
            *(placed(f"w{one}", "vision", begin_ms, FULL, node=f"n{one}") for one in range(count)),
        )
        changes_ms: dict[int, int] = {}
        kills = 0
        for step in count_from(0):
            since_ms = now_ms() - begin_ms
            if since_ms >= 1_000 * seconds:
                break
            percent = 100 if since_ms < 500 * seconds else 0
            changes_ms.setdefault(percent, now_ms())
            facts = [b.usage(percent, node=f"n{one}", at_ms=now_ms()) for one in range(count)]
            await tell(f"step{step}", *facts)
            if since_ms >= 1_000 * kill_seconds * (kills + 1):
                kills += 1
                killed.end(signal.SIGKILL)
                killed.start()
            await asyncio.sleep(random.uniform(0.08, 0.18) * kill_seconds)
        end_ms = now_ms()
        await tell("end", *(ended(f"w{one}", "vision", end_ms) for one in range(count)))

        async def are_told() -> bool:
            rows = "SELECT count(*) FROM gateway.gpu_usage WHERE ended"
            return int(database.execute(rows).strip()) >= count

        await until(are_told, 120)

    charged = database.execute(
        "SELECT workload_id, sum(gpu_milli * (ended_at_ms - started_at_ms))"
        " FROM monitoring.cost_interval GROUP BY 1"
    )
    ledger = {one.split("|")[0]: int(one.split("|")[1]) for one in charged.split()}
    assert {f"w{one}": 1_000 * (end_ms - begin_ms) for one in range(count)} == ledger
    assert ledger == killed.sums()
    parts = database.execute("SELECT sum(used), sum(unmeasured) FROM gateway.gpu_usage")
    used, unmeasured = map(int, parts.strip().split("|"))
    allocated = sum(ledger.values())
    part = unmeasured / allocated
    print(
        f"{kills} kills: allocated {allocated}, used {used}, unmeasured {unmeasured} ({part:.4%})"
    )
    assert kills >= seconds // kill_seconds - 1
    assert unmeasured <= allocated // 1_000
    expected = count * 1_000 * (changes_ms[0] - changes_ms[100])
    assert abs(used - expected) <= expected // 50
