"""The cluster watcher on a real API server, a real broker and a real database.

What operators and others do to nodes is told within seconds; a kubelet that is away for a minute
costs nobody anything; what happened while the watcher was away is told when it is back.
"""

import asyncio
import contextlib
import json
import time

import pytest

from deploy.kube.nodes import DRIVER, MEMORY_MIB, PRODUCT, node_name
from services.cluster_watcher.handler import WatcherHandler
from services.cluster_watcher.picture import ReadingPolicy
from services.cluster_watcher.settings import WatcherSettings
from shared.adapters.clock import SystemClock
from shared.adapters.kafka.topics import create_topics
from shared.adapters.kubernetes.nodes.source import KubernetesNodes
from shared.adapters.kubernetes.nodes.tainting import KubernetesTaints
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.health.device import DeviceState
from shared.core.kubernetes.observed import ObservedGpu
from shared.core.model.reason import Reason
from shared.events.nodes import DeviceHealthChanged, GpusObserved, NodeCordoned, NodeUncordoned
from shared.events.topics import GPU_FACTS, NODE_FACTS, WORKLOAD_FACTS
from shared.ports.kafka_access import KafkaAccess
from shared.runtime.settings import Settings
from tests.kube.kube_world import kill_api_server
from tests.support.gateway import publish_facts
from tests.support.running import running_handler

SECONDS = 40
SEEN_SECONDS = 6.0
"""Two seconds on a machine with nothing else to do."""
PLUGIN, WHOLE, MIG = node_name(30), node_name(31), node_name(32)
OTHER, RESTS, LEAVES = node_name(33), node_name(36), "extra-node"
LOST_MS = 4_000
ILL_SQL = f"SELECT ill FROM cluster_watcher.node WHERE name = '{PLUGIN}'"


DAEMON = "example.org/exporter"
_REQUESTS = {"cpu": "1", "memory": "512Mi"}
_CONTAINER = {"name": "c", "image": "a/b:1", "resources": {"requests": _REQUESTS}}
A_DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "exporter"},
    "spec": {
        "selector": {"matchLabels": {"app": "exporter"}},
        "template": {
            "metadata": {"labels": {"app": "exporter"}},
            "spec": {"nodeSelector": {DAEMON: "yes"}, "containers": [_CONTAINER]},
        },
    },
}


class Watched:
    """A watcher at work, what it told, and an administrator of the cluster."""

    def __init__(self, kube, kafka, database, prefix, admin):
        self.kube, self.database, self.admin = kube, database, admin
        self.settings = Settings(
            kafka_bootstrap=kafka,
            database_url=database.url("cluster_watcher"),
            topic_prefix=prefix,
        )
        self.handler: WatcherHandler | None = None

    @contextlib.asynccontextmanager
    async def running(self, lost_after_ms=120_000):
        source = KubernetesNodes(
            KubernetesSettings(config=str(self.kube.kubeconfig("watcher")), instance="watched")
        )
        policy = ReadingPolicy(keys=WatcherSettings().label_keys, lost_after_ms=lost_after_ms)
        taints = KubernetesTaints(
            KubernetesSettings(config=str(self.kube.kubeconfig("watcher")), instance="watched")
        )
        self.handler = WatcherHandler(
            source=source, clock=SystemClock(), policy=policy, taints=taints
        )
        async with running_handler(self.settings, self.handler):
            await self.until(lambda: self.handler.ready and len(self.rows()) >= 64)
            yield

    def rows(self):
        text = self.database.execute("SELECT body FROM cluster_watcher.node")
        nodes = (json.loads(line) for line in text.splitlines() if line)
        return {node["name"]: node for node in nodes}

    async def until(self, condition):
        """Return so many seconds after which it holds."""
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < SECONDS, "it did not come to that"
            await asyncio.sleep(0.05)
        return time.monotonic() - started

    async def node(self, name, condition):
        """The node once the condition holds of what was told; it is seen in time."""
        seconds = await self.until(lambda: name in (rows := self.rows()) and condition(rows[name]))
        assert seconds < SEEN_SECONDS
        return self.rows()[name]

    def patch(self, name, **body):
        self.admin.demand("PATCH", f"/api/v1/nodes/{name}", body)

    def pod(self, namespace, name, node, requests, **spec):
        """A pod of somebody else, bound."""
        container = {
            "name": "c", "image": "a/b:1", "resources": {"requests": requests, "limits": requests},
        }  # fmt: skip
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "x", "containers": [container], **spec},
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        self.admin.demand("POST", path, body)
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        self.admin.demand("POST", f"{path}/{name}/binding", target)
        return f"{path}/{name}"


@pytest.fixture
async def watched(kube, kafka, database, topic_prefix):
    await create_topics(
        KafkaAccess(bootstrap=kafka), topic_prefix, [NODE_FACTS, GPU_FACTS, WORKLOAD_FACTS]
    )
    with kube.client() as admin:
        watched = Watched(kube, kafka, database, topic_prefix, admin)
        yield watched
        for name in (PLUGIN, OTHER):
            label = {"muster.dev/pool": None, DAEMON: None}
            watched.patch(
                name, metadata={"labels": label}, spec={"unschedulable": None, "taints": None}
            )
        not_ready(watched, RESTS, None)
        admin.request("DELETE", f"/api/v1/nodes/{LEAVES}")


def not_ready(watched, name, text):
    watched.patch(name, metadata={"annotations": {"kwok.muster.dev/not-ready": text}})


def healthy(node):
    return sum(gpu.get("healthy", True) for gpu in node["gpus"])


def eight_gpus(node, *, ill):
    """What an agent sees of a node of eight GPUs, one of which is sick."""
    gpus = tuple(
        ObservedGpu(
            index=index,
            uuid=f"GPU-{node}-{index}",
            numa=index // 4,
            healthy=index != ill,
            reason="XID 79" if index == ill else "",
        )
        for index in range(8)
    )
    return GpusObserved(node=node, at_ms=int(time.time() * 1000), gpus=gpus, links="i")


async def agents_tell(watched, *facts):
    rows = [(GPU_FACTS, fact) for fact in facts]
    await publish_facts(watched.settings, rows, source="agent", at_ms=facts[0].at_ms)


async def test_what_agents_see_is_told_with_the_nodes_and_a_restart_knows_it(watched):
    async with watched.running():
        slices = watched.rows()[WHOLE]
        await agents_tell(watched, eight_gpus(PLUGIN, ill=3), eight_gpus(WHOLE, ill=3))
        node = await watched.node(PLUGIN, lambda node: node["gpus"][0]["uuid"])
        ill = watched.database.execute(ILL_SQL)
    async with watched.running():
        await asyncio.sleep(1)
        again = watched.rows()[PLUGIN]

    assert [f"GPU-{PLUGIN}-{index}" for index in range(8)] == [gpu["uuid"] for gpu in node["gpus"]]
    assert [3] == [index for index, gpu in enumerate(node["gpus"]) if not gpu.get("healthy", True)]
    assert [0, 1] == [node["gpus"][index].get("numa", 0) for index in (0, 7)]
    assert "i" == node["links"]
    assert '{"3":"XID 79"}' == ill
    assert node == again
    assert slices == watched.rows()[WHOLE], "its slices have other names: refused"


async def test_every_node_is_told_with_its_gpus_in_the_way_it_has_them(watched):
    async with watched.running():
        rows = watched.rows()

        assert [8] * 3 == [len(rows[name]["gpus"]) for name in (PLUGIN, WHOLE, MIG)]
        assert [PRODUCT] * 3 == [rows[name]["product"] for name in (PLUGIN, WHOLE, MIG)]
        gpus = rows[PLUGIN]["gpus"][0], rows[WHOLE]["gpus"][0], rows[MIG]["gpus"][0]
        assert [MEMORY_MIB] * 3 == [gpu["memory_mib"] for gpu in gpus]
        assert ["", "GPU-"] == [gpus[0]["uuid"], gpus[1]["uuid"][:4]]
        assert [False, True] == [gpu.get("mig", False) for gpu in gpus[1:]]
        assert 7 == len(gpus[2]["mig_placements"])
        assert (DRIVER, "13.0", "zone-0", "rack-1") == tuple(
            rows[WHOLE][field] for field in ("driver", "cuda", "zone", "rack")
        )
        assert (192_000, 2 << 20) == (rows[WHOLE]["cpu_milli"], rows[WHOLE]["memory_mib"])


async def test_cordon_label_and_pods_of_others_are_seen_in_time(watched, kube_namespace):
    async with watched.running():
        watched.patch(PLUGIN, spec={"unschedulable": True})
        cordoned = await watched.node(PLUGIN, lambda node: node.get("cordoned"))
        watched.patch(PLUGIN, metadata={"labels": {"muster.dev/pool": "research"}})
        await watched.node(PLUGIN, lambda node: node.get("pool") == "research")

        daemon = watched.pod(kube_namespace, "daemon", OTHER, {"cpu": "1500m", "memory": "1Gi"})
        small = await watched.node(OTHER, lambda node: node["cpu_milli"] == 190_000)
        gpu = watched.pod(kube_namespace, "gpu", OTHER, {"nvidia.com/gpu": "3"})
        await watched.node(OTHER, lambda node: healthy(node) == 5)
        for path in (daemon, gpu):
            watched.admin.demand("DELETE", path, {"gracePeriodSeconds": 1})

        free = await watched.node(OTHER, lambda node: node["cpu_milli"] == 192_000)

        await watched.until(lambda: healthy(watched.rows()[OTHER]) == 8)
        assert (2 << 20) - 1024 == small["memory_mib"]
        assert 2 << 20 == free["memory_mib"]
        assert cordoned.get("ready", True)


async def test_what_a_daemon_set_takes_of_its_nodes_is_seen_in_time(watched, kube_namespace):
    """Its controller makes the pod; the test binds it, as kube-scheduler would."""
    pods = f"/api/v1/namespaces/{kube_namespace}/pods"
    daemon_set = f"/apis/apps/v1/namespaces/{kube_namespace}/daemonsets/exporter"

    def made():
        return [one["metadata"]["name"] for one in watched.admin.demand("GET", pods)["items"]]

    async with watched.running():
        watched.patch(OTHER, metadata={"labels": {DAEMON: "yes"}})
        watched.admin.demand("POST", daemon_set.removesuffix("/exporter"), A_DAEMON_SET)
        await watched.until(made)
        target = {"target": {"kind": "Node", "name": OTHER}}
        (name,) = made()
        body = {"metadata": {"name": name}, **target}
        watched.admin.demand("POST", f"{pods}/{name}/binding", body)

        taken = await watched.node(OTHER, lambda node: node["cpu_milli"] == 191_000)
        watched.admin.demand("DELETE", daemon_set)
        await watched.until(lambda: watched.rows()[OTHER]["cpu_milli"] == 192_000)

        assert (2 << 20) - 512 == taken["memory_mib"]


async def test_a_node_that_is_not_ready_rests_and_only_later_is_lost(watched):
    """The time until a node is lost is short here; that it is kept is what is asked."""
    async with watched.running():
        not_ready(watched, RESTS, "true")
        resting = await watched.node(RESTS, lambda node: node.get("cordoned"))
        await asyncio.sleep(2)
        later = watched.rows()[RESTS]
    async with watched.running(LOST_MS):
        await watched.until(lambda: not watched.rows()[RESTS].get("ready", True))
        not_ready(watched, RESTS, None)

        await watched.until(lambda: as_before(watched.rows()[RESTS]))

    for node in (resting, later):
        assert (True, True) == (node.get("ready", True), node["cordoned"])


def as_before(node):
    return node.get("ready", True) and not node.get("cordoned") and not node.get("taints")


async def test_nodes_that_come_and_go_are_told_also_what_went_unwatched(watched):
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": LEAVES},
        "status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
    }
    async with watched.running():
        watched.admin.demand("POST", "/api/v1/nodes", node)
        await watched.node(LEAVES, lambda one: one["cpu_milli"] == 4_000)
        watched.admin.demand("DELETE", f"/api/v1/nodes/{LEAVES}")
        await watched.until(lambda: LEAVES not in watched.rows())
        watched.admin.demand("POST", "/api/v1/nodes", node)
        await watched.until(lambda: LEAVES in watched.rows())
    watched.admin.demand("DELETE", f"/api/v1/nodes/{LEAVES}")

    async with watched.running():
        await watched.until(lambda: LEAVES not in watched.rows())


async def test_a_dead_api_server_loses_no_node_and_is_heard_again(watched, kube):
    async with watched.running():
        assert watched.handler is not None
        before = watched.rows()
        start = await asyncio.to_thread(kill_api_server, kube)
        await watched.until(lambda: not watched.handler.ready)
        meanwhile = watched.rows()
        await asyncio.to_thread(start)
        watched.patch(PLUGIN, metadata={"labels": {"muster.dev/pool": "again"}})

        await watched.until(lambda: watched.rows()[PLUGIN].get("pool") == "again")
        await watched.until(lambda: watched.handler.ready)

    assert before == meanwhile
    assert before.keys() == watched.rows().keys()


def taints(watched, name=PLUGIN):
    found = watched.admin.demand("GET", f"/api/v1/nodes/{name}")["spec"].get("taints", ())
    return {one["key"]: (one.get("value", ""), one["effect"]) for one in found}


async def placement_tells(watched, *facts):
    rows = [(WORKLOAD_FACTS, fact) for fact in facts]
    at_ms = int(time.time() * 1000)
    await publish_facts(watched.settings, rows, source="placement", at_ms=at_ms)


def step(gpu, after):
    return DeviceHealthChanged(
        node=PLUGIN, gpu=gpu, uuid="", before=DeviceState.HEALTHY, after=after, rule="xid-memory"
    )


async def test_drained_devices_and_nodes_carry_taints_beside_those_of_others(watched):
    """With the rights of the watcher's own account; the inventory does not show them."""
    other = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}
    key, gpus = "muster.dev/out-of-service", "muster.dev/gpus-out-of-service"
    shown = {"dedicated": ("research", "NoSchedule")}
    one_out = {**shown, gpus: ("3", "PreferNoSchedule")}
    async with watched.running():
        watched.patch(PLUGIN, spec={"taints": [other]})
        await placement_tells(watched, step(3, DeviceState.QUARANTINED))
        seconds = await watched.until(lambda: taints(watched) == one_out)
        await placement_tells(watched, NodeCordoned(node=PLUGIN, reason=Reason.DRAINED))
        await watched.until(lambda: taints(watched) == {**one_out, key: ("drained", "NoSchedule")})
        watched.patch(PLUGIN, spec={"taints": [other]})
        await watched.until(lambda: key in taints(watched))
        await watched.node(
            PLUGIN, lambda node: node.get("taints") == ["dedicated=research:NoSchedule"]
        )
    watched.patch(PLUGIN, spec={"taints": [other]})
    async with watched.running():
        await watched.until(lambda: {key, gpus} <= taints(watched).keys())
        await placement_tells(watched, NodeUncordoned(node=PLUGIN), step(3, DeviceState.HEALTHY))
        await watched.until(lambda: taints(watched) == shown)

    assert seconds < SEEN_SECONDS
    assert not watched.database.execute("SELECT node FROM cluster_watcher.closed_node")
