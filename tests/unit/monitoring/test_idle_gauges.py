"""Workloads that are idle now, by name, and no more than the largest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.monitoring.gauges.idle import IDLE_MAX, SUBMITTER_CHARACTERS_MAX, families
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import SeenWorkload, Watch
from services.monitoring.use_memory import ChargedAttempt
from shared.core.nodes.idleness import ToldIdleness
from shared.core.quota.prices import Price
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring


def idle(memory: MonitoringMemory, name: str, milli: int, since_ms: int = 1_000) -> None:
    one = SeenWorkload(team="vision", queue="q", gpu_milli=milli)
    told = ToldIdleness(since_ms=since_ms, until_ms=since_ms)
    memory.workloads[name], memory.watches[name] = one, Watch(attempt=1, told=told)


def shown(memory: MonitoringMemory) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(one.labels.values()): one.value for one in family.samples}
        for family in families(memory, 61_000, Capped(200))
    }


def test_an_idle_workload_is_named_with_what_it_holds_and_for_how_long() -> None:
    memory = MonitoringMemory()
    idle(memory, "w1", 8_000)
    memory.workloads["w2"] = SeenWorkload(team="vision", queue="q", gpu_milli=1_000)
    memory.watches["w2"] = Watch(attempt=1)

    assert shown(memory) == {
        "muster_idle_workload_gpus": {("vision", "q", "w1"): 8},
        "muster_idle_workload_seconds": {("vision", "q", "w1"): 60},
        "muster_idle_workload_dollars": {},
        "muster_idle_workload_submitter": {},
    }


def test_what_it_wastes_has_the_price_of_when_it_began() -> None:
    memory = MonitoringMemory()
    idle(memory, "w1", 8_000)
    memory.use.price(
        "h100", [Price(version=1, applied_at_ms=0, microdollars_per_gpu_hour=3_000_000)]
    )
    memory.use.accounts["w1"] = ChargedAttempt(1, 0, "vision", "q", "", "h100", 8_000, 1_000, 0, 0)

    wasted = shown(memory)["muster_idle_workload_dollars"]

    assert wasted == {("vision", "q", "w1"): pytest.approx(8 * 3 * 60 / 3600)}


@pytest.mark.parametrize(
    ("door", "by", "submitter"),
    [
        ("http", "key nightly-ci (team member)", "key nightly-ci (team member)"),
        (
            "http",
            "Kubernetes user jo@here (team admin)",
            "Kubernetes user jo@\u200bhere (team admin)",
        ),
        ("http", "<!channel>\n*x*=1\u202e", "__channel___x__1_"),
        ("http", "k" * 500, "k" * SUBMITTER_CHARACTERS_MAX),
        ("kafka", "", "the topic of its team"),
        ("http", "", None),
    ],
)
async def test_who_submitted_it_is_named_in_plain_words_also_after_a_restart(
    door: str, by: str, submitter: str | None
) -> None:
    service = Monitoring()
    service.read(replace(b.queued(), by=by, door=door))
    await service.restart()
    memory = service.handler.memory
    told = ToldIdleness(since_ms=1_000, until_ms=1_000)
    memory.watches["w1"] = Watch(attempt=1, told=told)

    found = shown(memory)["muster_idle_workload_submitter"]

    assert found == ({} if submitter is None else {("vision", "vision-queue", "w1", submitter): 1})


def test_at_most_the_largest_are_named() -> None:
    memory = MonitoringMemory()
    for number in range(IDLE_MAX + 50):
        idle(memory, f"w{number}", number + 1)
        memory.workloads[f"w{number}"].submitter = "key ci"

    found_by_name = shown(memory)
    del found_by_name["muster_idle_workload_dollars"]
    for found in found_by_name.values():
        assert len(found) == IDLE_MAX
        named = {labels[:3] for labels in found}
        assert ("vision", "q", "w49") not in named
        assert ("vision", "q", "w50") in named
