"""The largest gang that fits now, by level of the fabric, and what is stranded on held nodes."""

from __future__ import annotations

from typing import Any

import pytest

from services.monitoring.gauges.room import ANY
from shared.core.health.device import DeviceState
from shared.core.model.nouns import Gpu, GpuShare, Level, Node
from shared.core.model.reason import Reason
from shared.events import nodes, workloads
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring
from tests.unit.monitoring.test_states import step

WHOLE = (GpuShare(index=0, mask=255, milli=1000, memory_mib=0),)
SHARE = (GpuShare(index=0, mask=0, milli=250, memory_mib=1),)


def node(name: str, gpus: int = 4, **labels: Any) -> nodes.NodeInventoryReported:
    found = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", memory_mib=81_559) for index in range(gpus)
    )
    one = Node(
        name=name,
        flavor="h100",
        product="NVIDIA-H100-80GB-HBM3",
        cpu_milli=64_000,
        memory_mib=1_000_000,
        gpus=found,
        **labels,
    )
    return nodes.NodeInventoryReported(node=one, generation=1)


def largest(monitoring: Monitoring) -> dict[str, float]:
    return {
        level: monitoring.value("muster_largest_gang_gpus", flavor="h100", level=level)
        for level in (*(one.value for one in Level), ANY)
    }


@pytest.fixture
def monitoring() -> Monitoring:
    """Two racks of two and one node, equal names in two blocks, and one node without labels."""
    one = Monitoring()
    one.read(
        node("n1", rack="r1", block="b1", zone="z"),
        node("n2", rack="r1", block="b1", zone="z"),
        node("n3", rack="r1", block="b2", zone="z"),
        node("n4", gpus=8),
    )
    return one


def test_each_level_has_its_own_largest_gang(monitoring):
    expected = {"node": 8, "nvlink-domain": 8, "rack": 8, "block": 8, "zone": 12, "any": 20}
    assert largest(monitoring) == expected


def test_equal_names_in_two_blocks_are_two_racks(monitoring):
    monitoring.read(b.queued(), b.placed(node="n4", shares=WHOLE))
    assert largest(monitoring)["rack"] == 8
    monitoring.read(b.queued("w2"), b.placed(workload_id="w2", node="n1", shares=WHOLE))
    assert largest(monitoring) == {
        "node": 7,
        "nvlink-domain": 7,
        "rack": 7,
        "block": 7,
        "zone": 11,
        "any": 18,
    }


def test_a_gpu_of_which_a_share_is_held_takes_no_gang(monitoring):
    monitoring.read(b.queued(), b.placed(node="n4", shares=SHARE))
    assert largest(monitoring)["any"] == 19


def test_what_takes_no_work_counts_for_nothing(monitoring):
    quarantined = step(DeviceState.QUARANTINED)
    monitoring.read(quarantined, nodes.NodeCordoned(node="n4", reason=Reason.CORDONED))
    assert largest(monitoring)["any"] == 11
    monitoring.read(nodes.NodeRemoved(node="n3", generation=2))
    assert largest(monitoring)["any"] == 7


def test_free_gpus_of_held_nodes_are_stranded(monitoring):
    def ratio() -> float:
        return float(monitoring.value("muster_fragmentation_ratio", flavor="h100"))

    assert ratio() == 0
    monitoring.read(b.queued(), b.placed(node="n1", shares=WHOLE))
    assert ratio() == pytest.approx(3 / 19)
    over = b.released(workloads.WorkloadSucceeded, 3, b.START_MS + 1)
    monitoring.read(over)
    assert ratio() == 0


async def test_a_restart_knows_the_domains(monitoring):
    await monitoring.restart()
    assert largest(monitoring)["zone"] == 12
