"""Workloads that are idle now, by name, and no more than the largest."""

from __future__ import annotations

from services.monitoring.gauges.idle import IDLE_MAX, families
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory, SeenWorkload, Watch
from shared.core.nodes.idleness import ToldIdleness


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
    }


def test_at_most_the_largest_are_named() -> None:
    memory = MonitoringMemory()
    for number in range(IDLE_MAX + 50):
        idle(memory, f"w{number}", number + 1)

    for found in shown(memory).values():
        assert len(found) == IDLE_MAX
        assert ("vision", "q", "w49") not in found
        assert ("vision", "q", "w50") in found
