"""What agents see of GPUs is told with the node, where it agrees with the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from services.cluster_watcher import metrics
from services.cluster_watcher.observed import UNMET_MS
from shared.core.kubernetes.inventory import KubernetesNode
from shared.core.kubernetes.observed import ObservedGpu
from shared.core.kubernetes.requests import TakenResources
from shared.core.kubernetes.standing import Readiness
from shared.core.model.nouns import Node
from shared.events.envelope import Event, Received
from shared.events.nodes import GpuHealthReported, GpusObserved, NodeInventoryReported, NodeRemoved
from shared.events.topics import GPU_FACTS
from shared.ports.cluster_nodes import Kind, PodUse
from tests.unit.cluster_watcher.test_watcher import AMOUNTS, Watching, a_node, a_slice

COUNT = {**AMOUNTS, "nvidia.com/gpu": "2"}


class Seeing(Watching):
    """A watcher to which agents speak."""

    def hear(self, *gpus: ObservedGpu, at_ms: int = 1, node: str = "n", links: str = "") -> None:
        fact = GpusObserved(node=node, at_ms=at_ms, gpus=gpus, links=links)
        event = Event(
            id="x", type="", source="", subject=node, time_ms=at_ms, key=node, payload=fact
        )
        message = Received(event=event, topic=GPU_FACTS.name, partition=0, offset=1)
        outcome = self.handler.decide([message], self.clock.at_ms)
        assert [] == outcome.emits
        self.table.take(outcome.writes)

    async def restarted(self) -> Seeing:
        """Another life on the same tables."""
        await self.handler.suspend()
        other = Seeing()
        other.table, other.clock = self.table, self.clock
        await other.start()
        return other


@pytest.fixture
async def seeing() -> AsyncIterator[Seeing]:
    seeing = Seeing()
    await seeing.start()
    yield seeing
    await seeing.handler.suspend()


def a_gpu(index: int, **more: Any) -> ObservedGpu:
    return ObservedGpu(index=index, uuid=f"GPU-{index}", **more)


def counting(**more: Any) -> KubernetesNode:
    """A node of whose GPUs the API server knows the number."""
    return KubernetesNode(
        name="n", capacity=COUNT, allocatable=COUNT, readiness=Readiness(ready=True), **more
    )


def uuids(node: Node) -> list[str]:
    return [gpu.uuid for gpu in node.gpus]


async def test_counted_gpus_get_their_names_numa_nodes_and_links(seeing: Seeing) -> None:
    seeing.all_listed(n=counting())
    assert ["", ""] == uuids(seeing.node(0))

    seeing.hear(a_gpu(0, numa=1, pci="0:1"), a_gpu(3), links="N")
    node = seeing.node()

    assert ["GPU-0", "GPU-3"] == uuids(node)
    assert [0, 1] == [gpu.index for gpu in node.gpus]
    assert [(1, "0:1"), (0, "")] == [(gpu.numa, gpu.pci) for gpu in node.gpus]
    assert "N" == node.links


async def test_a_gpu_of_a_slice_is_found_by_its_name_whatever_its_index_is(seeing: Seeing) -> None:
    seeing.all_listed(n=a_node())
    seeing.told()
    seeing.changed(Kind.SLICES, "s", a_slice(0, 1))
    seeing.node()

    gpus = ObservedGpu(index=0, uuid="GPU-1", numa=1), ObservedGpu(index=1, uuid="GPU-0")
    seeing.hear(*gpus, links="N")
    node = seeing.node()

    assert ["GPU-0", "GPU-1"] == uuids(node)
    assert [0, 1] == [gpu.numa for gpu in node.gpus]
    assert "N" == node.links


async def test_a_sick_gpu_is_told_with_its_reason_and_again_when_it_is_well(
    seeing: Seeing,
) -> None:
    seeing.all_listed(n=counting())
    seeing.told()
    seeing.hear(a_gpu(0, healthy=False, reason="XID 79"), a_gpu(1))

    inventory, sick = seeing.told(1000)
    seeing.hear(a_gpu(0, healthy=False, reason="XID 48"), a_gpu(1), at_ms=2)
    (other,) = [one for one in seeing.told(1000) if isinstance(one, GpuHealthReported)]
    seeing.hear(a_gpu(0), a_gpu(1), at_ms=3)
    well_inventory, well = seeing.told(1000)

    assert [False, True] == [gpu.healthy for gpu in inventory.node.gpus]
    assert (0, False, "XID 79") == (sick.gpu, sick.healthy, sick.reason)
    assert (0, False, "XID 48") == (other.gpu, other.healthy, other.reason)
    assert all(gpu.healthy for gpu in well_inventory.node.gpus)
    assert (0, True, "") == (well.gpu, well.healthy, well.reason)
    assert len(seeing.ids) == len(set(seeing.ids))


async def test_a_gpu_that_takes_no_work_for_another_reason_is_not_told_as_sick(
    seeing: Seeing,
) -> None:
    """A pod of others has it, says its kubelet: then it is that very GPU."""
    seeing.all_listed(n=counting())
    seeing.told()
    seeing.hear(a_gpu(0), a_gpu(1))
    seeing.told(1000)

    taken = PodUse(node="n", ours=False, taken=TakenResources(gpus=1), uuids=("GPU-0",))
    seeing.changed(Kind.PODS, "red/p", taken)
    facts = seeing.told(1000)

    assert [NodeInventoryReported] == [type(one) for one in facts]
    assert [False, True] == [gpu.healthy for gpu in facts[0].node.gpus]


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((a_gpu(0),), "1 GPU that is not in MIG mode, and the device plugin counts 2"),
        ((a_gpu(0), a_gpu(1), a_gpu(2)), "3 GPUs that are not in MIG mode"),
        ((a_gpu(0), a_gpu(1, mig=True)), "1 GPU that is not in MIG mode"),
    ],
)
async def test_another_number_than_the_device_plugin_s_is_refused_once(
    seeing: Seeing, capsys: pytest.CaptureFixture[str], gpus: tuple[ObservedGpu, ...], words: str
) -> None:
    seeing.all_listed(n=counting())
    seeing.told()
    before = metrics.REFUSED_OBSERVATIONS._value.get()

    seeing.hear(*gpus)
    told = seeing.told(1000)
    seeing.hear(*(msgspec.structs.replace(one, numa=1) for one in gpus), at_ms=2)
    told += seeing.told(1000)

    assert [] == told
    assert 1 == metrics.REFUSED_OBSERVATIONS._value.get() - before
    assert words in capsys.readouterr().out


async def test_a_name_that_no_slice_has_is_refused_and_the_node_is_told_without(
    seeing: Seeing, capsys: pytest.CaptureFixture[str]
) -> None:
    seeing.hear(a_gpu(0, numa=1), ObservedGpu(index=1, uuid="GPU-x", healthy=False))
    seeing.listed(Kind.SLICES, s=a_slice(0, 1))
    for kind in (Kind.CLAIMS, Kind.PODS):
        seeing.listed(kind)
    seeing.listed(n=a_node())

    node = seeing.node(0)

    assert [(0, True), (0, True)] == [(gpu.numa, gpu.healthy) for gpu in node.gpus]
    assert "gpus[1].uuid: GPU-x is in no ResourceSlice of the node" in capsys.readouterr().out


async def test_an_agent_may_speak_before_the_api_server_does(seeing: Seeing) -> None:
    seeing.hear(a_gpu(0), a_gpu(1))
    seeing.clock.at_ms += UNMET_MS
    seeing.all_listed(n=counting())

    assert ["GPU-0", "GPU-1"] == uuids(seeing.node(0))


async def test_what_was_heard_too_long_ago_may_be_of_another_machine(seeing: Seeing) -> None:
    seeing.hear(a_gpu(0), a_gpu(1))
    seeing.clock.at_ms += UNMET_MS + 1
    seeing.all_listed(n=counting())

    assert ["", ""] == uuids(seeing.node(0))


async def test_an_older_observation_is_passed_over(seeing: Seeing) -> None:
    seeing.all_listed(n=counting())
    seeing.told()
    seeing.hear(a_gpu(0), a_gpu(1), at_ms=5)
    seeing.told(1000)

    seeing.hear(a_gpu(0), a_gpu(1, healthy=False), at_ms=4)

    assert [] == seeing.told(1000)


async def test_a_restart_tells_nothing_anew_and_knows_what_was_seen(seeing: Seeing) -> None:
    seeing.all_listed(n=counting())
    seeing.told()
    seeing.hear(a_gpu(0), a_gpu(1, healthy=False, reason="XID 79"))
    seeing.told(1000)

    other = await seeing.restarted()
    other.all_listed(n=counting())
    nothing = other.told(1000)
    other.hear(a_gpu(0), a_gpu(1), at_ms=2)
    inventory, well = other.told(1000)
    await other.handler.suspend()

    assert [] == nothing
    assert ["GPU-0", "GPU-1"] == uuids(inventory.node)
    assert (1, True) == (well.gpu, well.healthy)


async def test_a_removed_node_is_forgotten_with_what_was_seen_of_it(seeing: Seeing) -> None:
    seeing.all_listed(n=counting(), m=a_node("m"))
    seeing.told()
    seeing.hear(a_gpu(0), a_gpu(1))
    seeing.told(1000)
    assert ["n"] == list(seeing.table.observations)

    seeing.changed(Kind.NODES, "n", None)
    (removed,) = seeing.told(1000)
    seeing.changed(Kind.NODES, "n", counting())

    assert isinstance(removed, NodeRemoved)
    assert {} == seeing.table.observations
    assert ["", ""] == uuids(seeing.node())


async def test_a_place_of_ours_stays_where_its_kubelet_says_it_is(seeing: Seeing) -> None:
    """The ledger says place 0, its kubelet gave it GPU-1: of the two GPU-0 is out, not GPU-1."""
    amounts = {**COUNT, "nvidia.com/gpu": "1"}
    node = KubernetesNode(
        name="n", capacity=COUNT, allocatable=amounts, readiness=Readiness(ready=True)
    )
    ours = PodUse(node="n", ours=True, held=(0,), uuids=("GPU-1",))
    seeing.listed(Kind.PODS, p=ours)
    for kind in (Kind.SLICES, Kind.CLAIMS):
        seeing.listed(kind)
    seeing.listed(n=node)
    before = seeing.node(0)

    seeing.hear(a_gpu(0), a_gpu(1))
    after = seeing.node()

    assert [True, False] == [gpu.healthy for gpu in before.gpus]
    assert [False, True] == [gpu.healthy for gpu in after.gpus]
