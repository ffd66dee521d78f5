"""The clusters that `ports.Cluster` is kept by, each with its surroundings in a test's hands.

A world is a cluster and what others do to it: time that passes, a kubelet that refuses, a node
that is not heard of, a namespace that is full, a finalizer of a controller. Another cluster joins
the contract by a class with these methods and a line in `WORLDS`.
"""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from shared.adapters.memory_cluster import MemoryCluster
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.core.model.nouns import GpuShare, PodSet
from shared.ports.cluster import Pod, PodCluster, PodOperation, PodTemplate
from shared.simulator.cluster.server import serving
from shared.simulator.cluster.settings import ClusterSettings
from shared.simulator.faults import Faults
from shared.simulator.pods import Timing

WINDOW = 8
STEPS_MAX = 80
KUBELETS = {
    "starts": Faults(),
    "refuses": Faults(kubelet_refuses=1.0),
    "cannot-pull": Faults(cannot_pull=1.0),
    "cannot-create": Faults(cannot_create=1.0),
}


class ManualClock:
    def __init__(self):
        self.ms = 1_700_000_000_000

    def now_ms(self):
        return self.ms

    def monotonic_seconds(self):
        return self.ms / 1000


class SimulatedWorld:
    """The state machine of the simulator behind an adapter; time is the clock's."""

    nodes = ("n1", "n2")
    namespaces = ("red", "blue")

    def __init__(self, cluster: PodCluster, clock: ManualClock, dice: Any, change: Any) -> None:
        self.cluster = cluster
        self.clock = clock
        self.dice = dice
        self._change = change
        """Applies a function of the pods and the time, and lets watches know."""

    async def one(self, operation):
        """The result of one operation."""
        return (await self.cluster.apply([operation]))[0]

    async def pods(self):
        """All pods by name."""
        return {pod.name: pod for pod in (await self.cluster.list_pods())[0]}

    async def pass_time(self, seconds=0.5):
        """Let that much time pass."""
        self.clock.ms += round(seconds * 1000)
        await self._change(lambda pods, now_ms: pods.tick(now_ms))

    async def until(self, name, condition):
        """The pod of that name once `condition` holds of it; of None once it is gone."""
        pod = None
        for _ in range(STEPS_MAX):
            pod = (await self.pods()).get(name)
            if condition(pod):
                return pod
            await self.pass_time()
        raise AssertionError(f"it did not come to that: {pod}")

    async def kubelet(self, does):
        """What kubelets do from now on: starts, refuses, cannot-pull, cannot-create."""
        self.dice.faults = KUBELETS[does]

    async def node(self, name, action):
        """`silent`: nothing is heard of it; `fence`: its pods are taken for gone; `up`."""
        if action == "up":
            await self._change(lambda pods, now_ms: pods.node_up(name, now_ms))
        elif action == "fence":
            await self._change(lambda pods, _: pods.fence_node(name))
        else:
            await self._change(lambda pods, _: pods.node_silent(name))

    async def limit(self, namespace, pods_max):
        """No more pods than that may be alive in a namespace."""
        await self._change(lambda pods, _: pods.quotas.update({namespace: pods_max}))

    async def others_make(self, group, name, size):
        """Somebody makes a pod of a group of so many, for Muster to bind."""
        del size
        made = a_pod(name, workload_id="", attempt=0, group=group, shares=())
        assert 201 == (await self.one(create(made))).status

    async def let_go(self, name):
        """The controller that keeps a pod takes its finalizers away."""
        await self._change(lambda pods, _: pods.let_go(name))

    async def forget_events(self):
        """Watches cannot begin any more at the versions of before."""
        names = [f"filler-{number}" for number in range(2 * WINDOW + 1)]
        await self.cluster.apply([create(a_pod(name)) for name in names])


@asynccontextmanager
async def in_memory(folder):
    clock = ManualClock()
    timing = Timing(start_delay_ms=500, stop_delay_ms=500)
    cluster = MemoryCluster(clock, timing, window_events=WINDOW)

    async def change(action):
        action(cluster.pods, clock.now_ms())
        cluster.tick()

    yield SimulatedWorld(cluster, clock, cluster.dice, change)


@asynccontextmanager
async def over_http(folder):
    clock = ManualClock()
    settings = ClusterSettings(state=folder, port=0, window_events=WINDOW, heartbeat_seconds=0.05)
    async with serving(settings, clock) as (engine, port):
        cluster = SimulatedCluster(f"http://127.0.0.1:{port}")
        yield SimulatedWorld(cluster, clock, engine.dice, engine.change)
        await cluster.close()


SIMULATED = (in_memory, over_http)
WORLDS = (*SIMULATED,)
"""Every cluster that keeps the contract."""


def a_pod(name="w1-1-0", **fields):
    share = GpuShare(index=3, mask=255, milli=1000, memory_mib=81_920)
    pod_set = PodSet(image="registry.example.org/a/b:1", command=("python", "train.py"))
    defaults: dict[str, Any] = {
        "workload_id": "w1",
        "attempt": 1,
        "rank": 0,
        "size": 1,
        "epoch": 4,
        "namespace": "red",
        "template": PodTemplate(pod_set=pod_set),
    }
    return Pod(name=name, team="red", **({"shares": (share,)} | defaults | fields))


def operation(verb, about, /, **fields):
    fields = {"uid": about.uid, **fields}
    return PodOperation(verb=verb, namespace=about.namespace, name=about.name, **fields)


def create(pod):
    return operation("create", pod, pod=pod)


def bind(pod, node="n1"):
    return operation("bind", pod, node=node)


def pin(pod, *devices, node="n1"):
    return operation("pin", pod, node=node, devices=devices)


def delete(pod, grace=1):
    return operation("delete", pod, grace_seconds=grace)


def force_delete(pod, node, **fields):
    return operation("force_delete", pod, node=node, **fields)


async def bound(world, name="w1-1-0", **fields):
    """A pod that was created and bound to the first node."""
    pod = (await world.one(create(a_pod(name, **fields)))).pod
    assert (await world.one(bind(pod, world.nodes[0]))).status == 201
    return pod


async def running(world, name="w1-1-0", **fields):
    """A pod that runs on the first node."""
    pod = await bound(world, name, **fields)
    await world.until(name, lambda one: one.phase == "Running")
    return pod


async def watched(world, version, count):
    """At least so many events after a version."""
    events: list[Any] = []
    async with asyncio.timeout(5):
        async for batch in world.cluster.watch(version):
            events += batch
            if len(events) >= count:
                return events
    return events
