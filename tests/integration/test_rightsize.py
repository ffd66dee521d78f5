"""What would have been enough, through monitoring, a real broker, PostgreSQL and HTTP."""

from __future__ import annotations

from copy import copy
from typing import Any

import msgspec
import pytest

from services.gateway.http.metrics import SAVING_DOLLARS
from services.gateway.usage.rightsize_report import boards_of
from services.gateway.usage.savings import tell_savings
from shared.adapters.memory import ManualClock
from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.quota.cost import DAY_MS
from shared.events import nodes, workloads
from shared.runtime.settings import Settings
from tests.fixtures.servers import Database
from tests.integration.test_usage import (
    HOUR_MS,
    MINUTE_MS,
    NOON_MS,
    InItsTime,
    _in_order,
    ended,
    placed,
)
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.running import running_handler
from tests.unit.monitoring import builders as b

HOURS = 30
DAYS = {"since": "2026-11-01"}


@pytest.fixture
def settings(kafka: str, database: Database, topic_prefix: str) -> Settings:
    return Settings(
        kafka_bootstrap=kafka,
        database_url=database.url("monitoring"),
        topic_prefix=topic_prefix,
        log_level="error",
    )


def a_board(name: str, flavor: str, gpus: int, *, mig: bool = False) -> Node:
    return Node(
        name=name, flavor=flavor, product="NVIDIA-H100-80GB-HBM3", cpu_milli=1, memory_mib=1,
        gpus=tuple(
            Gpu(index=index, uuid=f"{name}-{index}", memory_mib=81_920, mig=mig)
            for index in range(gpus)
        ),
    )  # fmt: skip


def queued(workload_id: str, team: str, name: str, kind: WorkloadKind, gpus: int) -> Any:
    spec = WorkloadSpec(name=name, kind=kind, pod_sets=(PodSet(gpu=GpuRequest(count=gpus)),))
    workload = Workload(
        id=workload_id, team=team, queue=f"{team}-queue", cell=0, priority=1, spec=spec,
        submitted_at_ms=NOON_MS,
    )  # fmt: skip
    return workloads.WorkloadQueued(workload=workload, body_hash="")


def reports(node: str, percent: int, gib: int, gpus: int) -> list[Any]:
    return [
        msgspec.structs.replace(
            b.usage(*(percent,) * gpus, node=node, at_ms=NOON_MS + minute * MINUTE_MS),
            memory_used_mib=(gib * 1_024,) * gpus,
        )
        for minute in range(HOURS * 60 + 4)
    ]


def thirty_hours() -> list[Any]:
    """Facts over the end of a week: eight GPUs at a fifth, a service at a tenth."""
    end_ms = NOON_MS + HOURS * HOUR_MS
    whole = (1_000, 255)
    measured = [reports("n1", 20, 15, 8), reports("n2", 10, 9, 1)]
    both = sorted((one for each in measured for one in each), key=lambda one: one.at_ms)
    until_end = [one for one in both if one.at_ms < end_ms]
    return [
        queued("w1", "vision", "train-17", WorkloadKind.TRAINING, 8),
        queued("w2", "speech", "serve", WorkloadKind.INFERENCE, 1),
        placed("w1", "vision", NOON_MS, *(whole,) * 8),
        placed("w2", "speech", NOON_MS, whole, node="n2"),
        *until_end,
        ended("w1", "vision", end_ms),
        ended("w2", "speech", end_ms),
        *both[len(until_end) :],
    ]


async def report(gateway: Gateway, key: str | None = None, **query: str) -> Any:
    reply = await gateway.call("GET", "/v1/rightsize", params={**DAYS, **query}, key=key)
    assert reply.status == 200, reply.body
    return reply.body


def check_savings(found: Any) -> None:
    """To the cent, the largest first."""
    training, service = found["items"]
    assert ("train", "fewer-gpus", 2, 20, 0) == (
        training["name"], training["form"], training["new_gpus"], training["busy_percent"],
        training["unmeasured_percent"],
    )  # fmt: skip
    assert (180 * HOUR_MS, 450_000_000) == (
        training["saved_gpu_ms"], training["saved_microdollars"],
    )  # fmt: skip
    assert ("mig-profile", "1g.20gb") == (service["form"], service["profile"])
    assert (22.5 * HOUR_MS, 56_250_000) == (
        service["saved_gpu_ms"], service["saved_microdollars"],
    )  # fmt: skip
    assert "2 in place of 8 GPUs" in training["message"]
    assert ("2026-10-26", 506_250_000) == (found["since"], found["saved_microdollars"])


async def check_own_team_and_query(gateway: Gateway) -> None:
    """A viewer sees its team; what is asked for wrongly is named."""
    key = await gateway.key("speech", "viewer")
    assert ["serve"] == [one["name"] for one in (await report(gateway, key))["items"]]
    other = await gateway.call("GET", "/v1/rightsize", params={"team": "vision"}, key=key)
    assert 404 == other.status
    bad = await gateway.call("GET", "/v1/rightsize", params={"since": "2026-13-01"})
    assert (400, "since") == (bad.status, bad.body["errors"][0]["field"])
    assert 1 == (await report(gateway, limit="1"))["left_out"]
    later = await report(gateway, since="2026-11-09")
    assert not later["items"]


async def test_work_that_would_have_done_with_less_is_named_to_its_team(
    gateway: Gateway, settings: Settings, database: Database
) -> None:
    boards = [a_board("n1", "h100", 8), a_board("n3", "h100", 2, mig=True)]

    async def is_told() -> bool:
        found = await report(gateway)
        return {30} == {one["run_hours"] for one in found["items"]} and len(found["items"]) == 2

    await gateway.organise("vision", "speech")
    price = {"price_microdollars_per_gpu_hour": 2_500_000}
    assert (await gateway.call("PATCH", "/v1/flavors/h100", price)).status == 200
    inventories = [nodes.NodeInventoryReported(node=one, generation=1) for one in boards]
    async with running_projection(gateway.settings), running_handler(settings, InItsTime()):
        facts = [(b.TOPIC_OF[type(one)], one) for one in inventories]
        await publish_facts(gateway.settings, facts, source="n", at_ms=NOON_MS)
        await _in_order(gateway, database, thirty_hours())
        await until(is_told)

    check_savings(await report(gateway))
    assert "2" == database.execute("SELECT count(DISTINCT week) FROM gateway.work_class").strip()
    await check_own_team_and_query(gateway)
    await check_gauges(gateway)


async def check_gauges(gateway: Gateway) -> None:
    """Of each team, as long as it is seen."""

    def told() -> dict[str, float]:
        (family,) = SAVING_DOLLARS.collect()
        return {one.labels["team"]: one.value for one in family.samples}

    door = copy(gateway.context)
    door.clock = ManualClock(NOON_MS + 20 * DAY_MS)
    teams = await tell_savings(door, set())
    expected = {"vision": 450.0, "speech": 56.25}
    assert expected.items() <= told().items()
    assert {"vision", "speech"} <= teams

    door.clock = ManualClock(NOON_MS + 60 * DAY_MS)
    SAVING_DOLLARS.labels("gone").set(1)
    await tell_savings(door, {*teams, "gone"})
    assert ("gone" in told(), told()["vision"]) == (False, 0)


def test_profiles_are_those_of_boards_in_mig_mode_and_memory_that_of_the_smallest() -> None:
    small = msgspec.structs.replace(
        a_board("a", "mixed", 1), gpus=(Gpu(index=0, uuid="a", memory_mib=40_000),)
    )
    each = [a_board("b", "h100", 1, mig=True), small, a_board("c", "mixed", 1)]

    boards = boards_of(msgspec.json.encode(one).decode() for one in each)

    assert (40_000, ()) == (boards["mixed"].memory_mib, boards["mixed"].profiles)
    assert 7 == boards["h100"].compute_slices
    assert ("1g.20gb", 1, 250, 20_480) in boards["h100"].profiles
