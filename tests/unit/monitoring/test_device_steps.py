"""Devices on the ladder of health, as gauges and counts."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import REGISTRY

from shared.core.health.device import DeviceState
from shared.core.model.nouns import Gpu, Node
from shared.events import nodes
from tests.unit.monitoring.test_monitoring import Monitoring

S = DeviceState


def inventory(generation: int = 1) -> nodes.NodeInventoryReported:
    gpus = tuple(Gpu(index=index, uuid=f"u{index}", memory_mib=80) for index in range(4))
    node = Node(name="n1", flavor="h100", product="", cpu_milli=1, memory_mib=1, gpus=gpus)
    return nodes.NodeInventoryReported(node=node, generation=generation)


def step(after: DeviceState, gpu: int = 0, **more: Any) -> nodes.DeviceHealthChanged:
    return nodes.DeviceHealthChanged(
        node="n1", gpu=gpu, uuid=f"u{gpu}", before=S.HEALTHY, after=after, rule="xid-reset", **more
    )


@pytest.fixture
def monitoring() -> Monitoring:
    one = Monitoring()
    one.read(inventory())
    return one


def shown(monitoring: Monitoring, state: str) -> float | None:
    found: float | None = monitoring.value("muster_gpu_health", flavor="h100", state=state)
    return found


def healthy(monitoring: Monitoring) -> float | None:
    found: float | None = monitoring.value("muster_gpu_healthy", flavor="h100")
    return found


async def test_steps_are_shown_by_state_and_a_restart_forgets_none(monitoring):
    monitoring.read(step(S.QUARANTINED), step(S.SUSPECT, 1), step(S.DRAINING, 2))
    await monitoring.restart()

    assert [shown(monitoring, one) for one in ("quarantined", "suspect", "draining")] == [1, 1, 1]
    assert healthy(monitoring) == 2, "a suspect device takes work"
    monitoring.read(step(S.HEALTHY))
    assert (shown(monitoring, "quarantined"), healthy(monitoring)) == (None, 3)


def test_what_was_only_told_changes_no_gauge_and_is_counted(monitoring):
    def counted() -> float:
        labels = {"before": "healthy", "after": "draining", "rule": "xid-reset", "done": "false"}
        return REGISTRY.get_sample_value("muster_health_steps_total", labels) or 0

    before = counted()
    monitoring.read(step(S.DRAINING, done=False))

    assert (counted(), healthy(monitoring)) == (before + 1, 4)


async def test_a_node_that_left_has_no_devices_on_the_ladder(monitoring):
    monitoring.read(step(S.FAILED), nodes.NodeRemoved(node="n1", generation=2), inventory(3))
    await monitoring.restart()

    assert (shown(monitoring, "failed"), healthy(monitoring)) == (None, 4)
