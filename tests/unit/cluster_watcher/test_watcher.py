"""What is told of nodes, and when: the handler on news that are handed to it."""

import asyncio
from typing import Any

import msgspec
import pytest

from services.cluster_watcher.handler import NODES_PER_BATCH, WatcherHandler
from services.cluster_watcher.picture import ReadingPolicy
from shared.core.kubernetes.devices import DeviceSlice, WholeGpu
from shared.core.kubernetes.inventory import KubernetesNode, LabelKeys
from shared.core.kubernetes.requests import TakenResources
from shared.core.kubernetes.standing import Readiness
from shared.events import nodes
from shared.events.nodes import GpusObserved, NodeInventoryReported, NodeRemoved
from shared.events.topics import GPU_FACTS, WORKLOAD_FACTS
from shared.ports.cluster_nodes import Changed, ClaimUse, Interrupted, Kind, Listed, PodUse

AMOUNTS = {"cpu": "8", "memory": "16Gi"}
MINUTE_MS = 60_000


class Source:
    """Tells what the test tells."""

    def __init__(self):
        self.tell: Any = None
        self.closed = 0
        self.failure: Exception | None = None

    async def follow(self, tell):
        self.tell = tell
        if self.failure:
            raise self.failure
        await asyncio.Event().wait()

    async def close(self):
        self.closed += 1


class Clock:
    def __init__(self):
        self.at_ms = 10 * MINUTE_MS

    def now_ms(self):
        return self.at_ms

    def monotonic_seconds(self):
        return self.at_ms / 1000


class Table:
    """The rows that the handler's writes leave."""

    def __init__(self):
        self.rows: dict[str, dict[str, Any]] = {}
        self.observations: dict[str, dict[str, Any]] = {}

    async def fetch(self, sql, cell):
        if "closed_node" in sql:
            return []
        return list((self.observations if "observation" in sql else self.rows).values())

    def take(self, writes):
        for write in writes:
            observed = "observation" in write.sql
            rows = self.observations if observed else self.rows
            if write.sql.startswith("DELETE"):
                for name in write.arguments[0]:
                    del rows[name]
                assert write.expect == len(write.arguments[0])
                continue
            _, *columns = write.arguments
            keys = ("node", "at_ms", "body") if observed else ("name", "generation", "body", "ill")
            for values in zip(*columns, strict=True):
                rows[values[0]] = dict(zip(keys, values, strict=True))
            assert write.expect == len(columns[0])


class Watching:
    """A handler, its source, and a loop that commits all it decides."""

    def __init__(self):
        self.source, self.clock, self.table = Source(), Clock(), Table()
        policy = ReadingPolicy(keys=LabelKeys(rack=("rack",), product=("product",)))
        self.handler = WatcherHandler(source=self.source, clock=self.clock, policy=policy)
        self.wakes = 0
        self.handler.on_wake = self._wake
        self.ids: list[str] = []

    def _wake(self):
        self.wakes += 1

    async def start(self):
        await self.handler.load(self.table)
        await asyncio.sleep(0)

    def listed(self, kind=Kind.NODES, **items):
        self.source.tell(Listed(kind=kind, items=items))

    def all_listed(self, **nodes):
        for kind in (Kind.SLICES, Kind.CLAIMS, Kind.PODS):
            self.listed(kind)
        self.listed(**nodes)

    def changed(self, kind, key, item):
        self.source.tell(Changed(kind=kind, key=key, item=item))

    def told(self, after_ms=0):
        """The facts that are due after so long."""
        self.clock.at_ms += after_ms
        messages = self.handler.due(self.clock.at_ms)
        outcome = self.handler.decide(messages, self.clock.at_ms)
        self.table.take(outcome.writes)
        self.ids += [one.event.id for one in messages]
        return [one.payload for one in outcome.emits]

    def node(self, after_ms=1000):
        """The one inventory that is due after a second."""
        (fact,) = self.told(after_ms)
        assert isinstance(fact, NodeInventoryReported)
        return fact.node


@pytest.fixture
async def watching():
    watching = Watching()
    await watching.start()
    yield watching
    await watching.handler.suspend()


def a_node(name="n", **others):
    others.setdefault("readiness", Readiness(ready=True))
    return KubernetesNode(name=name, capacity=AMOUNTS, allocatable=AMOUNTS, **others)


def a_slice(*minors, total=1, generation=1):
    gpus = tuple(WholeGpu(minor=minor, uuid=f"GPU-{minor}", product="P") for minor in minors)
    return DeviceSlice(node="n", pool="n", generation=generation, total=total, gpus=gpus)


async def test_nothing_is_told_before_everything_was_listed(watching):
    watching.listed(n=a_node())
    watching.listed(Kind.PODS)
    watching.listed(Kind.CLAIMS)
    before = watching.told()
    ready_before, due_before, wakes = (
        watching.handler.ready, watching.handler.next_due_ms(), watching.wakes,
    )  # fmt: skip

    watching.listed(Kind.SLICES, s=a_slice(0))

    assert (before, ready_before, due_before, wakes) == ([], False, None, 0)
    assert (watching.handler.ready, watching.wakes) == (True, 1)
    assert ["GPU-0"] == [gpu.uuid for gpu in watching.node(0).gpus]


async def test_a_change_is_told_once_and_at_most_twice_a_second(watching):
    watching.all_listed(n=a_node())
    first = watching.told()
    watching.changed(Kind.NODES, "n", a_node(labels={"rack": "a"}))
    at_once = watching.told()
    watching.changed(Kind.NODES, "n", a_node(labels={"rack": "b"}))

    later = watching.told(500)

    assert (1, [], 1) == (len(first), at_once, len(later))
    assert "b" == later[0].node.rack
    assert later[0].generation > first[0].generation
    assert [] == watching.told(MINUTE_MS)
    assert watching.handler.next_due_ms() is None


async def test_what_changes_nothing_is_not_told(watching):
    watching.all_listed(n=a_node())
    watching.told()
    watching.changed(Kind.NODES, "n", a_node(readiness=Readiness(ready=True, since_ms=7)))

    assert [] == watching.told(1000)


async def test_cordon_and_others_pods_are_seen(watching):
    watching.all_listed(n=a_node())
    watching.told()

    watching.changed(Kind.NODES, "n", a_node(unschedulable=True))
    assert watching.node().cordoned
    pod = PodUse(node="n", ours=False, taken=TakenResources(cpu_milli=1500, memory_bytes=1 << 30))
    watching.changed(Kind.PODS, "red/p", pod)
    taken = watching.node()
    watching.changed(Kind.PODS, "red/p", None)

    assert (6000, 15 * 1024) == (taken.cpu_milli, taken.memory_mib)
    assert 8000 == watching.node().cpu_milli


async def test_a_foreign_pod_on_a_counting_node_takes_a_place_that_ours_do_not_hold(watching):
    amounts = {**AMOUNTS, "nvidia.com/gpu": "2"}
    node = KubernetesNode(
        name="n", capacity=amounts, allocatable=amounts, readiness=Readiness(ready=True)
    )
    watching.all_listed(n=node)
    watching.told()
    watching.changed(Kind.PODS, "a/ours", PodUse(node="n", ours=True, held=(1,)))
    assert [] == watching.told(1000)

    watching.changed(Kind.PODS, "a/p", PodUse(node="n", ours=False, taken=TakenResources(gpus=1)))

    assert [False, True] == [gpu.healthy for gpu in watching.node().gpus]


async def test_a_foreign_claim_takes_its_very_gpu_and_gives_it_back(watching):
    watching.all_listed(n=a_node())
    watching.listed(Kind.SLICES, s=a_slice(0, 1))
    watching.told()

    watching.changed(Kind.CLAIMS, "a/c", ClaimUse(gpus=(("n", 0), ("elsewhere", 1))))
    taken = watching.node()
    watching.changed(Kind.CLAIMS, "a/c", None)

    assert [False, True] == [gpu.healthy for gpu in taken.gpus]
    assert [True, True] == [gpu.healthy for gpu in watching.node().gpus]


async def test_a_node_keeps_its_devices_while_its_pool_is_written_anew(watching):
    watching.all_listed(n=a_node())
    watching.listed(Kind.SLICES, s=a_slice(0, 1))
    watching.told()

    watching.changed(Kind.SLICES, "s", a_slice(0, total=2, generation=2))
    meanwhile = watching.told(1000)
    watching.changed(Kind.SLICES, "t", a_slice(5, total=2, generation=2))

    assert [] == meanwhile
    assert [0, 5] == [gpu.index for gpu in watching.node().gpus]


async def test_a_list_tells_what_is_gone(watching):
    watching.all_listed(n=a_node(), m=a_node("m"))
    watching.listed(
        Kind.PODS, p=PodUse(node="n", ours=False, taken=TakenResources(cpu_milli=1000))
    )
    watching.told()

    watching.listed(Kind.PODS)
    watching.listed(n=a_node())
    facts = {type(fact): fact for fact in watching.told(1000)}

    assert {NodeInventoryReported, NodeRemoved} == facts.keys()
    assert "m" == facts[NodeRemoved].node
    assert 8000 == facts[NodeInventoryReported].node.cpu_milli
    assert {"n"} == watching.table.rows.keys()


async def test_a_kubelet_restart_of_a_minute_loses_no_node(watching):
    watching.all_listed(n=a_node())
    watching.told()
    since_ms = watching.clock.at_ms
    watching.changed(
        Kind.NODES, "n", a_node(readiness=Readiness(reason="NodeStatusUnknown", since_ms=since_ms))
    )
    resting = watching.node()
    a_minute = watching.told(MINUTE_MS - 1000)
    watching.changed(Kind.NODES, "n", a_node())

    back = watching.node()

    assert (True, True, []) == (resting.ready, resting.cordoned, a_minute)
    assert (True, False) == (back.ready, back.cordoned)


async def test_a_node_that_is_not_ready_for_two_minutes_is_lost_with_its_reason(watching):
    watching.all_listed(n=a_node())
    watching.told()
    lost = Readiness(reason="NodeStatusUnknown", since_ms=watching.clock.at_ms)
    watching.changed(Kind.NODES, "n", a_node(readiness=lost))
    watching.told(1000)
    due_ms = watching.handler.next_due_ms()

    inventory, health = watching.told(2 * MINUTE_MS - 1000)
    watching.changed(Kind.NODES, "n", a_node())
    back, healthy = watching.told(1000)

    assert due_ms == lost.since_ms + 2 * MINUTE_MS
    assert not inventory.node.ready
    assert (-1, False) == (health.gpu, health.healthy)
    assert "NotReady for more than 120 s: NodeStatusUnknown" == health.reason
    assert (True, True) == (back.node.ready, healthy.healthy)


async def test_a_deleted_node_is_removed_and_one_that_comes_again_is_told_again(watching):
    watching.all_listed(n=a_node())
    (first,) = watching.told()
    watching.changed(Kind.NODES, "n", None)
    (removed,) = watching.told(1000)
    watching.changed(Kind.NODES, "n", a_node())

    (again,) = watching.told(1000)

    assert isinstance(removed, NodeRemoved)
    assert first.generation < removed.generation
    assert isinstance(again, NodeInventoryReported)
    assert {"n"} == watching.table.rows.keys()


async def test_a_restart_tells_only_what_changed_meanwhile(watching):
    watching.all_listed(n=a_node(), gone=a_node("gone"), same=a_node("same"))
    before = {fact.node.name: fact.generation for fact in watching.told()}
    watching.clock.at_ms -= MINUTE_MS
    await watching.start()

    watching.all_listed(n=a_node(unschedulable=True), same=a_node("same"))
    facts = watching.told()

    told = {getattr(fact.node, "name", fact.node): fact for fact in facts}
    assert {"n", "gone"} == told.keys()
    assert isinstance(told["gone"], NodeRemoved)
    assert all(fact.generation > before[name] for name, fact in told.items())
    assert 1 <= watching.source.closed


async def test_every_fact_has_an_id_of_its_own(watching):
    watching.all_listed(n=a_node())
    for at in range(4):
        watching.changed(Kind.NODES, "n", a_node(labels={"rack": str(at)}))
        watching.told(1000)

    assert 4 == len(set(watching.ids)) == len(watching.ids)


async def test_a_batch_is_bounded(watching):
    names = [f"n{number}" for number in range(NODES_PER_BATCH + 1)]
    watching.all_listed(**{name: a_node(name) for name in names})

    assert [NODES_PER_BATCH, 1, 0] == [len(watching.told()) for _ in range(3)]


async def test_a_server_that_is_not_heard_makes_it_unready_and_tells_nothing(watching):
    watching.all_listed(n=a_node())
    watching.told()

    watching.source.tell(Interrupted(kind=Kind.PODS, problem="gone"))
    ready, facts = watching.handler.ready, watching.told(10 * MINUTE_MS)
    watching.listed(Kind.PODS)

    assert (False, []) == (ready, facts)
    assert watching.handler.ready


async def test_a_cluster_that_lists_no_node_any_more_is_doubted_and_evicts_nobody(watching):
    watching.all_listed(n=a_node())
    watching.told()

    await watching.start()
    watching.all_listed()
    doubted = watching.handler.ready, watching.told(10 * MINUTE_MS)
    watching.listed(m=a_node("m"))
    believed = {type(fact) for fact in watching.told(1000)}

    assert (False, []) == doubted
    assert {NodeInventoryReported, NodeRemoved} == believed
    assert watching.handler.ready


async def test_the_last_node_of_a_cluster_can_be_deleted(watching):
    watching.all_listed(n=a_node())
    watching.told()

    watching.changed(Kind.NODES, "n", None)

    assert [NodeRemoved] == [type(fact) for fact in watching.told(1000)]


async def test_a_node_that_cannot_be_told_is_left_out_and_looked_at_again(watching):
    watching.all_listed(n=a_node())
    watching.told()
    wrong = msgspec.structs.replace(a_node(), allocatable={"cpu": "many"})
    watching.changed(Kind.NODES, "n", wrong)

    facts = watching.told(1000)

    assert [] == facts
    assert watching.handler.next_due_ms() == watching.clock.at_ms + 30_000
    assert {"n"} == watching.table.rows.keys()


async def test_a_listener_that_ended_ends_the_life_of_the_loop(watching):
    watching.source.failure = RuntimeError("a bug")
    await watching.start()
    await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="a bug"):
        watching.told()
    watching.source.failure = None
    await watching.start()


async def test_what_agents_see_and_what_placement_closes_is_read():
    handler = Watching().handler

    assert ((GPU_FACTS, (0,)), (WORKLOAD_FACTS, (0,))) == handler.topics()
    assert {
        GpusObserved, nodes.DeviceHealthChanged, nodes.NodeCordoned, nodes.NodeUncordoned,
    } == set(handler.reads())  # fmt: skip
