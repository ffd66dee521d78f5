"""What the binder relies on, of every cluster: the fake in memory and the process behind HTTP."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from shared.adapters.memory_cluster import MemoryCluster
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.core.model import GpuShare
from shared.ports.cluster import Cluster, Operation, Pod
from shared.ports.errors import ResourceVersionExpired, Transient
from shared.simulator.cluster.server import serving
from shared.simulator.cluster.settings import ClusterSettings
from shared.simulator.faults import Faults
from shared.simulator.pods import Timing

WINDOW = 8


class ManualClock:
    def __init__(self):
        self.ms = 1_700_000_000_000

    def now_ms(self):
        return self.ms

    def monotonic_seconds(self):
        return self.ms / 1000


@dataclass
class World:
    """A cluster with its time and its faults in the test's hands."""

    cluster: Cluster
    clock: ManualClock
    dice: Any
    poke: Any

    async def advance(self, seconds):
        self.clock.ms += round(seconds * 1000)
        self.poke()
        await self.cluster.list_pods()

    async def one(self, operation):
        return (await self.cluster.apply([operation]))[0]


@asynccontextmanager
async def in_memory(folder):
    clock = ManualClock()
    timing = Timing(start_delay_ms=500, stop_delay_ms=500)
    cluster = MemoryCluster(clock, timing, window_events=WINDOW)
    yield World(cluster, clock, cluster.dice, cluster.tick)


@asynccontextmanager
async def over_http(folder):
    clock = ManualClock()
    settings = ClusterSettings(state=folder, port=0, window_events=WINDOW, heartbeat_seconds=0.05)
    async with serving(settings, clock) as (engine, port):
        cluster = SimulatedCluster(f"http://127.0.0.1:{port}")
        yield World(cluster, clock, engine.dice, engine.poke)
        await cluster.close()


@pytest.fixture(params=[in_memory, over_http])
async def world(request, tmp_path):
    async with request.param(tmp_path / "state") as world:
        yield world


def a_pod(name="w1-1-0", **fields):
    share = GpuShare(index=3, mask=255, milli=1000, memory_mib=81_920)
    defaults: dict[str, Any] = {
        "workload_id": "w1",
        "attempt": 1,
        "rank": 0,
        "size": 1,
        "epoch": 4,
    }
    return Pod(name=name, team="red", shares=(share,), image="a/b:1", **(defaults | fields))


def create(pod):
    return Operation(verb="create", name=pod.name, pod=pod)


def bind(pod, node="n1"):
    return Operation(verb="bind", name=pod.name, uid=pod.uid, node=node)


def delete(pod, grace=0):
    return Operation(verb="delete", name=pod.name, uid=pod.uid, grace_seconds=grace)


async def bound(world, **fields):
    pod = (await world.one(create(a_pod(**fields)))).pod
    assert (await world.one(bind(pod))).status == 201
    return pod


async def test_a_created_pod_is_answered_and_listed_with_all_its_fields(world):
    result = await world.one(create(a_pod()))

    pods, version = await world.cluster.list_pods()

    assert result.status == 201
    assert result.pod.uid
    assert pods == [result.pod]
    assert version == result.pod.resource_version
    assert pods[0].shares == a_pod().shares


async def test_creating_a_name_again_answers_409_with_the_pod_that_has_it(world):
    first = await world.one(create(a_pod()))

    again = await world.one(create(a_pod(workload_id="other")))

    assert (again.status, again.reason) == (409, "AlreadyExists")
    assert again.pod == first.pod


async def test_binding_twice_answers_409_with_the_node_it_has(world):
    pod = await bound(world)

    again = await world.one(bind(pod, node="n2"))

    assert (again.status, again.pod.node) == (409, "n1")


async def test_bind_and_delete_want_the_uid_they_name(world):
    pod = (await world.one(create(a_pod()))).pod
    wrong = a_pod(uid="someone-else")

    results = await world.cluster.apply([bind(wrong), delete(wrong), bind(a_pod("none-1-0"))])

    assert [result.status for result in results] == [409, 409, 404]
    assert (await world.cluster.list_pods())[0] == [pod]


async def test_results_come_in_the_order_of_the_operations(world):
    names = [f"w{number}-1-0" for number in range(20)]

    results = await world.cluster.apply([create(a_pod(name)) for name in names])

    assert [result.pod.name for result in results] == names


async def test_a_bound_pod_runs_ends_and_can_be_deleted(world):
    pod = await bound(world, duration_seconds=10)

    await world.advance(0.5)
    running = (await world.cluster.list_pods())[0][0]
    await world.advance(10)
    ended = (await world.cluster.list_pods())[0][0]
    result = await world.one(delete(pod))

    assert (running.phase, ended.phase, result.status) == ("Running", "Succeeded", 200)
    assert (await world.cluster.list_pods())[0] == []


async def test_a_deleted_running_pod_stays_while_it_stops(world):
    pod = await bound(world)
    await world.advance(0.5)

    await world.one(delete(pod, grace=30))
    stopping = (await world.cluster.list_pods())[0]
    await world.advance(0.5)

    assert [pod.deleting for pod in stopping] == [True]
    assert (await world.cluster.list_pods())[0] == []


async def watched(world, version, count):
    events = []
    async with asyncio.timeout(5):
        async for batch in world.cluster.watch(version):
            events += batch
            if len(events) >= count:
                return events
    return events


async def test_a_watch_tells_everything_after_its_version_and_nothing_before(world):
    await world.one(create(a_pod("early-1-0")))
    _, version = await world.cluster.list_pods()
    pod = await bound(world)
    await world.advance(0.5)
    await world.one(delete(pod))

    events = await watched(world, version, 4)

    assert [(event.type, event.pod.phase) for event in events] == [
        ("ADDED", "Pending"), ("MODIFIED", "Pending"), ("MODIFIED", "Running"),
        ("DELETED", "Running"),
    ]  # fmt: skip
    assert [event.pod.resource_version for event in events] == [version + n for n in (1, 2, 3, 4)]
    assert events[1].pod.node == "n1"


async def test_a_watch_that_is_waiting_is_told_of_what_comes(world):
    waiting = asyncio.create_task(watched(world, 0, 1))
    await asyncio.sleep(0)

    await world.one(create(a_pod()))

    assert [event.pod.name for event in await waiting] == ["w1-1-0"]


async def test_a_version_that_is_no_longer_kept_is_410(world):
    await world.cluster.apply([create(a_pod(f"w{n}-1-0")) for n in range(2 * WINDOW + 1)])

    with pytest.raises(ResourceVersionExpired):
        await watched(world, 0, 1)


async def test_a_version_from_the_future_is_410(world):
    with pytest.raises(ResourceVersionExpired):
        await watched(world, 99, 1)


async def test_a_lost_reply_raises_transient_though_everything_happened(world):
    world.dice.faults = Faults(reply_lost=1.0)

    with pytest.raises(Transient):
        await world.one(create(a_pod()))

    assert [pod.name for pod in (await world.cluster.list_pods())[0]] == ["w1-1-0"]


@pytest.mark.parametrize(
    ("fault", "status"), [("conflict", 409), ("throttled", 429), ("broken", 500)]
)
async def test_a_refused_operation_did_not_happen(world, fault, status):
    world.dice.faults = Faults(**{fault: 1.0})

    result = await world.one(create(a_pod()))

    assert (result.status, result.pod) == (status, None)
    assert (await world.cluster.list_pods())[0] == []


async def test_a_dropped_watch_raises_transient(world):
    world.dice.faults = Faults(watch_dropped=1.0)
    await world.one(create(a_pod()))

    with pytest.raises(Transient):
        await watched(world, 0, 2)
