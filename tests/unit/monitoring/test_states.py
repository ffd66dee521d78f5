"""The nine states of GPUs: their sum is the capacity, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.monitoring.gauges.states import GpuState
from shared.core.health.device import DeviceState
from shared.core.model.nouns import GpuShare
from shared.core.model.reason import Reason
from shared.events import nodes, workloads
from shared.events.workloads import Wire
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring


def shown(monitoring: Monitoring) -> dict[str, float]:
    """GPUs by state, without the states of which there are none."""
    found = {
        one: monitoring.value("muster_gpu_state", flavor="h100", state=one.value)
        for one in GpuState
    }
    assert sum(found.values()) == monitoring.value("muster_gpu_capacity", flavor="h100")
    return {one.value: value for one, value in found.items() if value}


def running(version: int = 3, workload_id: str = "w1") -> Wire:
    fact: Wire = b.a_fact(
        workloads.WorkloadRunning, version, workload_id, running_at_ms=b.START_MS
    )
    return fact


def half(index: int = 0, milli: int = 500) -> tuple[GpuShare, ...]:
    return (GpuShare(index=index, mask=0, milli=milli, memory_mib=1),)


def kept(*names: str, switching: tuple[tuple[str, int], ...] = ()) -> nodes.NodesKept:
    one = nodes.KeptFor(workload_id="w9", pin=1, nodes=names)
    gpus = tuple(nodes.SwitchingGpu(node=node, gpu=gpu) for node, gpu in switching)
    return nodes.NodesKept(kept=(one,), switching=gpus)


def step(after: DeviceState, gpu: int = 0, rule: str = "xid-reset", **more: Any) -> Wire:
    return nodes.DeviceHealthChanged(
        node="n1",
        gpu=gpu,
        uuid="",
        before=DeviceState.HEALTHY,
        after=after,
        rule=rule,
        **more,
    )


@pytest.fixture
def monitoring() -> Monitoring:
    one = Monitoring()
    one.read(b.a_node(gpus=4))
    return one


def test_a_gpu_that_nobody_holds_is_free(monitoring):
    assert shown(monitoring) == {"free": 4}


def test_placed_work_starts_and_running_work_is_measured(monitoring):
    monitoring.read(b.queued(), b.placed())
    assert shown(monitoring) == {"starting": 1, "free": 3}

    monitoring.read(running())
    assert shown(monitoring) == {"unmeasured": 1, "free": 3}

    monitoring.read(b.usage(30, 0, 0, 0))
    assert shown(monitoring) == {"used": 0.3, "unused": 0.7, "free": 3}


def test_a_shared_gpu_is_split_by_what_is_held_of_it(monitoring):
    monitoring.read(b.queued(), b.placed(shares=half()), running())
    monitoring.read(b.queued("w2"), b.placed(workload_id="w2", shares=half(milli=250)))
    monitoring.read(running(workload_id="w2"), b.usage(60, 0, 0, 0))

    assert shown(monitoring) == {"used": 0.6, "unused": 0.15, "free": 3.25}


def test_an_instance_is_judged_by_its_own_use(monitoring):
    shares = (GpuShare(index=0, mask=15, milli=500, memory_mib=1),)
    monitoring.read(b.queued(), b.placed(shares=shares), running())
    monitoring.read(b.usage(90, 0, 0, 0, instances=[(0, 15, 20)]))

    assert shown(monitoring) == {"used": 0.1, "unused": 0.4, "free": 3.5}


def test_use_that_was_not_read_is_unmeasured(monitoring):
    report = nodes.GpuUsageReported(
        node="n1",
        at_ms=b.START_MS,
        utilization_percent=(0, 0, 0, 0),
        memory_used_mib=(0, 0, 0, 0),
        temperature_celsius=(0, 0, 0, 0),
        power_watts=(0, 0, 0, 0),
        unread=(0,),
    )
    monitoring.read(b.queued(), b.placed(), running(), report)

    assert shown(monitoring) == {"unmeasured": 1, "free": 3}


def test_work_that_is_stopped_drains(monitoring):
    evicted = b.a_fact(workloads.WorkloadEvicted, 4)
    monitoring.read(b.queued(), b.placed(), running(), evicted)

    assert shown(monitoring) == {"draining": 1, "free": 3}


async def test_what_takes_no_work_is_told_apart_and_a_restart_forgets_nothing(monitoring):
    monitoring.read(b.a_node("n2", gpus=1), b.a_node("n3", gpus=1))
    monitoring.read(kept("n2", switching=(("n1", 2),)))
    monitoring.read(step(DeviceState.QUARANTINED), step(DeviceState.DRAINING, 1))
    monitoring.read(nodes.NodeCordoned(node="n3", reason=Reason.CORDONED))
    wanted = {"unhealthy": 1, "draining": 2, "switching": 1, "kept": 1, "free": 1}
    assert shown(monitoring) == wanted

    await monitoring.restart()
    assert shown(monitoring) == wanted

    monitoring.read(kept(), nodes.NodeUncordoned(node="n3"))
    assert shown(monitoring) == {"unhealthy": 1, "draining": 1, "free": 4}


def test_nothing_is_free_on_a_node_that_is_not_ready_or_is_shunned(monitoring):
    lost = nodes.GpuHealthReported(node="n1", gpu=-1, healthy=False, generation=2)
    monitoring.read(lost)
    assert shown(monitoring) == {"unhealthy": 4}

    back = nodes.GpuHealthReported(node="n1", gpu=-1, healthy=True, generation=3)
    shunned = nodes.NodeShunned(node="n1", until_ms=9, workloads=2, start_seconds=120)
    monitoring.read(back, shunned)
    assert shown(monitoring) == {"unhealthy": 4}


FACTS = st.sampled_from(
    [
        running(3),
        running(3, "w2"),
        b.placed(2, shares=half()),
        b.placed(2, "w2", shares=half(milli=400)),
        b.placed(2, "w3", shares=half(3, 1000)),
        b.a_fact(workloads.WorkloadEvicted, 4),
        b.released(workloads.WorkloadSucceeded, 5, b.START_MS),
        b.usage(33, 100, 0, 7),
        b.usage(99),
        step(DeviceState.DRAINING),
        step(DeviceState.FAILED, 3),
        step(DeviceState.HEALTHY, 3),
        kept("n1"),
        kept(switching=(("n1", 1),)),
        nodes.NodeCordoned(node="n1", reason=Reason.CORDONED),
        nodes.GpuHealthReported(node="n1", gpu=2, healthy=False, generation=2),
        nodes.NodeRemoved(node="n1", generation=7),
    ]
)


@given(st.lists(FACTS, max_size=12))
def test_the_states_are_the_capacity_in_any_order_of_facts(facts: list[Wire]) -> None:
    monitoring = Monitoring()
    monitoring.read(b.a_node(gpus=4))
    for fact in facts:
        monitoring.read(fact)
        if monitoring.value("muster_gpu_capacity", flavor="h100"):
            total = sum(
                monitoring.value("muster_gpu_state", flavor="h100", state=one.value)
                for one in GpuState
            )
            assert round(total, 9) == 4
