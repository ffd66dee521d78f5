"""What autoscalers are told: nodes for work that only room is lacking, and for a buffer."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest

from services.monitoring.handler import MonitoringHandler
from services.monitoring.memory import MonitoringMemory
from services.monitoring.needed import START_MS, NeededNodes
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuChoice, GpuRequest, GpuShare, PodSet
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events import needed_nodes, nodes, organisation, quotas, workloads
from tests.support.crowded_fleet import NOW_MS, crowded
from tests.support.protocol import a_message
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring
from tests.unit.monitoring.test_room_gauges import node

SECOND = 1_000
ALL_FOUR = tuple(GpuShare(index=index, mask=255, milli=1000, memory_mib=0) for index in range(4))


class Cell(Monitoring):
    """Facts that are read a while apart, and what is told of nodes; 4 GPUs are on each."""

    def __init__(self, **warm: int) -> None:
        super().__init__()
        self._warm = warm
        self.at_ms = b.START_MS
        self._begin()

    def _begin(self) -> None:
        self.handler = MonitoringHandler(node_start_ms=200 * SECOND, warm_nodes=self._warm)
        self._registry()

    async def restart(self) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        self._begin()
        await self.handler.load(self.tables)

    def told(self, *payloads: Any, after_s: int = 10) -> dict[str, tuple[int, int, int]] | None:
        """(nodes, of the buffer, pods) by flavor; None if nothing is told."""
        self.at_ms += after_s * SECOND
        messages = [
            msgspec.structs.replace(b.received(one), logged_ms=self.at_ms) for one in payloads
        ]
        outcome = self.handler.decide(messages, b.START_MS)
        self.tables.apply(outcome.writes)
        self.handler.topics()
        told = [
            one.payload
            for one in outcome.emits
            if isinstance(one.payload, needed_nodes.NodesNeeded)
        ]
        if not told:
            return None
        return {one.flavor: (one.nodes, one.warm_nodes, one.pods) for one in told[0].flavors}


def queue(*flavors: str, gpus: int = 400) -> quotas.QuotaChanged:
    limits = tuple(
        quotas.FlavorQuota(flavor=one, nominal=Resources(gpu_milli=gpus * 1_000))
        for one in flavors
    )
    return quotas.QuotaChanged(name="vision-queue", kind="queue", flavors=limits)


def asks(workload_id: str, pods: int = 2, **more: Any) -> Any:
    fact = b.queued(workload_id)
    sets = (PodSet(count=pods, gpu=GpuRequest(count=4)),)
    spec = msgspec.structs.replace(fact.workload.spec, pod_sets=sets, **more)
    workload = msgspec.structs.replace(fact.workload, spec=spec)
    return msgspec.structs.replace(fact, workload=workload)


def without_room(workload_id: str) -> Any:
    return b.refused(Reason.GANG_SHORT, workload_id=workload_id)


def runs_on_n1(**more: Any) -> list[Any]:
    placed = b.placed(workload_id="w0", shares=ALL_FOUR)
    running = b.a_fact(workloads.WorkloadRunning, 3, workload_id="w0", running_at_ms=b.START_MS)
    return [asks("w0", pods=1, **more), placed, running]


@pytest.fixture
def cell() -> Cell:
    """Two nodes of four GPUs; one of them is held."""
    one = Cell()
    one.read(queue("h100"), node("n1"), node("n2"), *runs_on_n1())
    return one


async def test_pods_without_room_are_told_once_until_they_find_it_also_after_a_restart(cell):
    assert cell.told(asks("w1", pods=3)) is None, "it was not tried yet"
    assert cell.told(without_room("w1")) == {"h100": (2, 0, 2)}
    needed = {"flavor": "h100", "purpose": "work"}
    assert cell.value("muster_nodes_needed", **needed) == 2
    assert cell.value("muster_nodes_needed_pods", flavor="h100") == 2
    await cell.restart()
    assert cell.value("muster_nodes_needed", **needed) == 2
    assert cell.told(node("n3"), after_s=9) == {"h100": (1, 0, 1)}
    assert cell.told(node("n3")) is None, "the same is told once"
    assert cell.told(b.refused_by_quota(workload_id="w1")) == {}, "quota holds it now"
    assert cell.value("muster_nodes_needed", **needed) == 0


def test_it_is_looked_at_every_ten_seconds(cell):
    assert cell.told(asks("w1"), without_room("w1")) == {"h100": (1, 0, 1)}
    assert cell.told(node("n3"), after_s=9) is None
    assert cell.told(node("n4"), after_s=1) == {}


@pytest.mark.parametrize(
    "reason", [Reason.WAITING_FOR_QUOTA, Reason.BEHIND_HEAD, Reason.NO_MATCHING_NODE]
)
def test_what_waits_for_something_else_needs_no_node(cell, reason):
    assert cell.told(asks("w1"), b.refused(reason, workload_id="w1")) is None


def test_two_that_quota_has_for_only_one_of_need_the_nodes_of_one(cell):
    cell.read(msgspec.structs.replace(queue("h100", gpus=16), version=2))

    told = cell.told(asks("w1"), asks("w2"), without_room("w1"), without_room("w2"))

    assert told == {"h100": (1, 0, 1)}, "four of sixteen are held, eight are asked for twice"


@pytest.mark.parametrize(
    ("length_s", "expected"),
    [
        pytest.param(150, None, id="ends before a node could be there"),
        pytest.param(300, {"h100": (1, 0, 1)}, id="ends later"),
        pytest.param(5, {"h100": (1, 0, 1)}, id="is longer there than was said"),
        pytest.param(None, {"h100": (1, 0, 1)}, id="for an unknown time"),
    ],
)
def test_what_frees_sooner_than_a_node_starts_is_no_need(length_s, expected):
    cell = Cell()
    cell.read(queue("h100"), node("n1"), node("n2"))
    cell.read(*runs_on_n1(expected_duration_seconds=length_s))

    assert cell.told(asks("w1"), without_room("w1")) == expected


def test_what_is_being_stopped_frees_its_room_now(cell):
    stopped = b.a_fact(workloads.WorkloadEvicted, 4, workload_id="w0", reason=Reason.PREEMPTED)
    assert stopped.state is State.EVICTING

    assert cell.told(stopped, asks("w1"), without_room("w1")) is None


@pytest.mark.parametrize(
    "gone",
    [
        nodes.NodeRemoved(node="n2", generation=2),
        nodes.GpuHealthReported(node="n2", gpu=-1, healthy=False, generation=2),
        nodes.GpuHealthReported(node="n2", gpu=0, healthy=False, generation=2),
        nodes.NodeCordoned(node="n2", reason=Reason.OPERATOR),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_node_that_takes_no_work_is_no_room(cell, gone):
    assert cell.told(gone, asks("w1"), without_room("w1")) == {"h100": (2, 0, 2)}


def test_work_counts_in_a_flavor_of_its_product_until_that_is_deleted(cell):
    cell.read(
        organisation.FlavorApplied(name="a100", version=1, products=("A100",)),
        organisation.FlavorApplied(name="h100", version=1, products=("H100",)),
        msgspec.structs.replace(queue("a100", "h100"), version=2),
    )
    only = GpuChoice(products=("H100",))

    assert cell.told(asks("w1", gpu_choice=only), without_room("w1")) == {"h100": (1, 0, 1)}
    deleted = organisation.DocumentDeleted(kind="flavor", name="a100", version=2)
    assert cell.told(deleted) == {"a100": (2, 0, 2)}, "it may be of any product"


async def test_the_buffer_is_of_empty_nodes_and_a_flavor_may_have_none():
    cell = Cell(h100=2, b200=1)
    cell.read(queue("h100"), node("n1"), node("n2"))

    assert cell.told(*runs_on_n1()) == {"b200": (0, 1, 0), "h100": (0, 1, 0)}
    await cell.restart()
    assert cell.value("muster_nodes_needed", flavor="h100", purpose="warm") == 1


def calls_of_a_look(memory: MonitoringMemory) -> int:
    """Calls of Python functions that a look takes: the same on every machine."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    needed = NeededNodes(memory, 0, START_MS, {})
    message = msgspec.structs.replace(a_message(0), logged_ms=NOW_MS)
    sys.setprofile(count)
    try:
        needed.told([message])
    finally:
        sys.setprofile(None)
    assert memory.needs, "nodes are needed"
    return calls


def test_four_times_the_gangs_of_equal_kinds_cost_no_more_steps():
    few, many = (crowded(nodes=64, gangs=gangs) for gangs in (5_000, 20_000))

    assert len(few.without_room) == len(many.without_room), "equal gangs are one entry"
    assert calls_of_a_look(many) < 1.3 * calls_of_a_look(few)


@pytest.mark.parametrize("near", [False, True], ids=["anywhere", "in racks"])
def test_a_look_takes_a_bounded_number_of_steps(near):
    memory = crowded(nodes=200, gangs=20_000, teams=200, near=near, free=2)

    assert calls_of_a_look(memory) < 100_000
