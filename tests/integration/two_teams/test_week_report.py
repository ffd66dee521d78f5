"""A week of two teams, as facts tell it: money, waits, evictions, failures, rights; told once."""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from datetime import timedelta

from typing_extensions import override

from services.gateway.app.context import GatewayContext
from services.gateway.usage.rightsize_reads import monday_of
from services.gateway.usage.usage_sums import date_of, number_of
from services.gateway.usage.week_telling import DUE_MS, tell_week
from shared.adapters.clock import SystemClock
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.quota.cost import DAY_MS
from shared.events import topics, usage, workloads
from tests.fixtures.servers import Database
from tests.integration.test_preemption_records import accepted_plan, expired_plan
from tests.support.facts import Fact, common
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_gateway,
    running_projection,
    until,
)
from tests.support.two_teams import HOUR, START, queued, running
from tests.support.webhooks import Notifications, Receiver
from tests.support.webhooks import until as until_true

GPU_HOUR = 1_000 * 1_000 * HOUR
MONDAY = monday_of(date_of(START // DAY_MS))


def used(team: str, workload_id: str, weeks_ago: int, hours: int) -> usage.AttemptUse:
    """So many GPU-hours at $2.50, three quarters of them used."""
    return usage.AttemptUse(
        workload_id=workload_id,
        attempt=1,
        team=team,
        queue=team,
        flavor="h100",
        day=number_of(MONDAY) - 7 * weeks_ago,
        used=hours * GPU_HOUR * 3 // 4,
        unused=hours * GPU_HOUR // 4,
        unmeasured=0,
        price_microdollars_per_gpu_hour=2_500_000,
    )


def a_week() -> list[Fact]:
    """Red waits 4 s and fails, blue waits 2 s; one of two plans against both is carried out."""
    spent = (used("red", "w2", 0, 8), used("red", "w0", 1, 4), used("blue", "w1", 0, 2))
    failed = workloads.WorkloadFailed(
        **common("w2", 4, State.FAILED, "red"), reason=Reason.FAILED, message="exit code 1"
    )
    return [
        *(queued(name, team) for name, team in (("w1", "blue"), ("w2", "red"), ("w3", "red"))),
        *running("w1", "blue", START + 2_000),
        *running("w2", "red", START + 4_000),
        (topics.WORKLOAD_FACTS, failed),
        accepted_plan("p1"),
        accepted_plan("p2"),
        expired_plan("p1"),
        (topics.IDLENESS_FACTS, usage.UsageTold(attempts=spent, at_ms=START)),
    ]


async def test_a_week_is_told_by_team_and_to_each_its_own(gateway: Gateway) -> None:
    async def report(key: str | None = None, **query: str) -> dict:
        params = {"week": (MONDAY + timedelta(days=2)).isoformat(), **query}
        reply = await gateway.call("GET", "/v1/report", params=params, key=key)
        assert reply.status == 200, reply.body
        return dict(reply.body)

    async def is_told() -> bool:
        """The facts are of several topics."""
        found = await report()
        counts = [(one["failed"] + one["preempted"], one["submitted"]) for one in found["teams"]]
        return counts == [(2, 2), (1, 1)] and found["total"]["cost_microdollars"] > 0

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, a_week(), source="a", at_ms=START)
        await until(is_told)
        told = await report()
        before = await report(week=(MONDAY - timedelta(days=7)).isoformat())
        own = await report(await gateway.key("blue", "viewer"))
        wrong = await gateway.call("GET", "/v1/report", params={"week": "2026-13-01"})

    red, blue = told["teams"]
    assert (MONDAY.isoformat(), 25_000_000) == (told["since"], told["total"]["cost_microdollars"])
    assert {
        "team": "red", "cost_microdollars": 20_000_000, "unused_microdollars": 5_000_000,
        "cost_before_microdollars": 10_000_000, "used_gpu_ms": 6_000 * HOUR, "submitted": 2,
        "started": 1, "failed": 1, "wait_p50_ms": 4_000, "wait_p95_ms": 4_000, "preempted": 1,
        "idle_released": 0, "savings": [],
    }.items() <= red.items()  # fmt: skip
    assert (2_000, 0, 1) == (blue["wait_p50_ms"], blue["failed"], blue["preempted"])
    assert [{"reason": Reason.FAILED, "count": 1}] == told["failures"]
    assert [("red", 0, None)] == [
        (one["team"], one["submitted"], one["wait_p50_ms"]) for one in before["teams"]
    ]
    assert ["blue"] == [one["team"] for one in own["teams"]]
    assert [] == own["failures"]
    assert (400, "week") == (wrong.status, wrong.body["errors"][0]["field"])


class ClockAt(SystemClock):
    """A clock that stands."""

    def __init__(self, at_ms: int) -> None:
        self._at_ms = at_ms

    @override
    def now_ms(self) -> int:
        return self._at_ms


def after_the_week(gateway: Gateway, late_ms: int = DUE_MS) -> GatewayContext:
    """The gateway so long after the end of the week."""
    over_ms = number_of(MONDAY + timedelta(days=7)) * DAY_MS
    return replace(gateway.context, clock=ClockAt(over_ms + late_ms))


async def test_a_week_is_sent_once_to_the_fleet_and_to_each_team_over_restarts(
    gateway: Gateway, service: Notifications, receiver: Receiver, database: Database
) -> None:
    (own_rounds,) = (one for one in gateway.context.tasks if one.get_name() == "weeks")
    own_rounds.cancel()
    url = f"http://127.0.0.1:{receiver.port}"
    await service.apply("all", f"{url}/all", events=("report-weekly",))
    await service.apply("red", f"{url}/red", team="red", events=("report-weekly",))
    await service.apply("broken", f"{url}/broken", events=("rejected",))
    service.start()  # a destination is told of what comes after its document
    await until_true(lambda: service.destinations() == 3, "the documents are not known")
    service.end(signal.SIGKILL)
    assert not await tell_week(after_the_week(gateway))

    async def are_told() -> bool:
        counted = await gateway.context.reader.fetch(
            "SELECT (SELECT count(*) FROM gateway.gpu_usage) + (SELECT count(*)"
            " FROM gateway.workload WHERE state = 'failed') AS known"
        )
        return bool(counted[0]["known"] == 4)

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, a_week(), source="a", at_ms=START)
        await until(are_told)
    assert await tell_week(after_the_week(gateway, DUE_MS - 1))  # of the week before
    due = after_the_week(gateway)
    assert [False, True] == sorted(await asyncio.gather(tell_week(due), tell_week(due)))
    url_of_gateway = database.url("gateway")
    async with running_gateway(
        service.kafka, url_of_gateway, service.prefix, gateway_shard=2
    ) as other:
        assert not await tell_week(after_the_week(other))
        assert not await tell_week(after_the_week(other, DUE_MS + DAY_MS))

    service.start()
    await until_true(lambda: len(receiver.taken) == 4, "the weeks do not come", 90)
    # one that dies between an answer and its row sends again
    await until_true(lambda: service.waiting() == 0, "the answers are not noted")
    service.end(signal.SIGKILL)
    service.start()
    await until_true(lambda: service.waiting() == 0, "something waits")
    await asyncio.sleep(1)

    told = {one.path: json.loads(one.body) for one in receiver.taken}
    weeks = [MONDAY - timedelta(days=7), MONDAY]
    assert [(path, one.isoformat()) for path in ("/all", "/red") for one in weeks] == sorted(
        (one.path, json.loads(one.body)["data"]["since"]) for one in receiver.taken
    )
    assert {"muster.report-weekly"} == {one["type"] for one in told.values()}
    fleet, red = told["/all"]["data"], told["/red"]["data"]
    assert ("", 25_000_000, 10_000_000, 1) == (
        fleet["team"], fleet["cost_microdollars"], fleet["cost_before_microdollars"],
        fleet["failed"],
    )  # fmt: skip
    assert ("red", 20_000_000, 6_000 * HOUR, 4_000) == (
        red["team"], red["cost_microdollars"], red["used_gpu_ms"], red["wait_p50_ms"],
    )  # fmt: skip
    assert red["text"].startswith(f"week of {MONDAY}: team red held 8.0 GPU-hours for $20.00 (")
    assert f"muster report --week {MONDAY} -t red" == red["command"]
