"""Nodes, slices, claims and pods as an API server tells them: what is read, and how it is kept."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from deploy.kube.slices import mig_slices, whole_slice
from shared.adapters.kubernetes.nodes import following
from shared.adapters.kubernetes.nodes import source as module
from shared.adapters.kubernetes.nodes.objects import (
    ClaimObject,
    NodeObject,
    RequestingPod,
    SliceObject,
)
from shared.adapters.kubernetes.nodes.reading import read_claim, read_node, read_pod, read_slice
from shared.adapters.kubernetes.nodes.source import KubernetesNodes
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.kubernetes.devices import devices_of
from shared.core.kubernetes.inventory import Taint
from shared.core.kubernetes.requests import TakenResources
from shared.core.kubernetes.standing import Readiness
from shared.core.model.mig.tables import table_for
from shared.ports.cluster_nodes import Changed, ClaimUse, Interrupted, Kind, Listed, PodUse
from tests.unit.adapters.api_server import Server, write_config

SECONDS = 20
OURS = {"app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "default"}
UUIDS = ["GPU-a", "GPU-b"]


def parsed(kind, document):
    return decoder(kind).decode(json.dumps(document))


def a_node(**status):
    return {
        "metadata": {"name": "n", "labels": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "e"}]},
        "status": status,
    }


def test_a_node_is_read_with_its_condition_ready():
    conditions = [
        {"type": "MemoryPressure", "status": "False"},
        {
            "type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:05Z",
        },
    ]  # fmt: skip
    status = {"allocatable": {"cpu": "1"}, "conditions": conditions}
    status["images"] = [{"names": ["a:1", "a@sha256:1"]}, {"names": None}, {"sizeBytes": 1}]

    node = read_node(parsed(NodeObject, a_node(**status)))

    assert Readiness(since_ms=5000, reason="r", message="m") == node.readiness
    assert (True, (Taint(key="k", value="v", effect="e"),)) == (node.unschedulable, node.taints)
    assert ({"cpu": "1"}, {}, (("a:1", "a@sha256:1"),)) == (
        node.allocatable, node.capacity, node.images,
    )  # fmt: skip


@pytest.mark.parametrize("time", ["", "yesterday"])
def test_a_condition_whose_time_is_none_is_of_no_time(time):
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": time}

    node = read_node(parsed(NodeObject, a_node(conditions=[ready])))

    assert Readiness(ready=True) == node.readiness
    assert Readiness() == read_node(parsed(NodeObject, a_node(conditions=None))).readiness


def test_slices_of_whole_gpus_are_read():
    found = read_slice(parsed(SliceObject, whole_slice("n", UUIDS)))

    assert found is not None
    devices = devices_of([found], uses_mig=False, memory_mib=0, taken=frozenset())
    assert devices is not None
    assert [("GPU-a", 81_559, False), ("GPU-b", 81_559, False)] == [
        (gpu.uuid, gpu.memory_mib, gpu.mig) for gpu in devices.gpus
    ]
    assert "NVIDIA-H100-80GB-HBM3" == devices.product


def test_every_placement_of_the_table_is_read_from_partitionable_slices():
    slices = [read_slice(parsed(SliceObject, one)) for one in mig_slices("n", UUIDS)]

    devices = devices_of(
        [one for one in slices if one], uses_mig=True, memory_mib=0, taken=frozenset()
    )

    assert devices is not None
    table = table_for("NVIDIA H100 80GB HBM3", 81_559)
    assert table is not None
    for gpu in devices.gpus:
        assert gpu.mig
        told = {one.profile: (one.compute, one.size, one.starts) for one in gpu.mig_placements}
        assert 7 == len(told)
        for profile, shape in told.items():
            known = table.profiles[profile]
            assert (known.compute, known.size, known.starts) == shape


def device(name, kind, **others):
    return {"name": name, "attributes": {"type": {"string": kind}}, **others}


def a_slice(*devices, driver="gpu.nvidia.com", node="n"):
    pool = {"name": "n", "generation": 2, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": list(devices)}
    return read_slice(parsed(SliceObject, {"spec": spec}))


def test_an_instance_that_exists_tells_its_slices_by_its_capacity():
    one = device("gpu-1-mig-3g40gb-9-4", "mig")
    one["attributes"] |= {"uuid": {"string": "MIG-1"}, "profile": {"string": "3g.40gb"}}
    one["capacity"] = {f"memorySlice{at}": {"value": "1"} for at in range(4, 8)}

    found = a_slice(one)

    assert found is not None
    (part,) = found.parts
    assert ("MIG-1", 1, 4, 4, 9) == (
        part.uuid, part.minor, part.start, part.size, part.profile_id,
    )  # fmt: skip


def test_a_device_with_a_taint_that_keeps_work_away_is_not_healthy():
    taints = [{"key": "x", "effect": "None"}], [{"key": "x", "effect": "NoSchedule"}]

    found = a_slice(*(device(f"gpu-{at}", "gpu", taints=one) for at, one in enumerate(taints)))

    assert found is not None
    assert [True, False] == [gpu.healthy for gpu in found.gpus]


def test_what_another_driver_or_no_node_publishes_is_passed_over():
    assert a_slice(driver="example.org") is None
    assert a_slice(node="") is None
    found = a_slice(
        device("channel-0", "gpu"), device("gpu-0", "vfio"), device("gpu-0-mig", "mig")
    )
    assert found is not None
    assert ((), ()) == (found.gpus, found.parts)


def a_claim(*results, **metadata):
    status = {"allocation": {"devices": {"results": list(results)}}} if results else {}
    return read_claim(parsed(ClaimObject, {"metadata": metadata, "status": status}), "default")


def result(device, driver="gpu.nvidia.com", **others):
    return {"driver": driver, "pool": "n", "device": device, **others}


def test_a_claim_of_others_holds_its_gpus_whole_or_in_part():
    found = a_claim(result("gpu-1"), result("gpu-2-mig-1g10gb-19-3"), result("channel-0"))

    assert ClaimUse(gpus=(("n", 1), ("n", 2))) == found


def test_claims_that_hold_nothing_of_ours_or_for_administrators_are_none():
    assert a_claim() is None
    assert a_claim(result("gpu-0"), labels=OURS) is None
    assert a_claim(result("gpu-0", adminAccess=True)) is None
    assert a_claim(result("gpu-0", driver="example.org")) is None


def a_pod(node="n", phase="Running", labels=None, annotations=None, **spec):
    document = {
        "metadata": {
            "name": "p", "namespace": "red", "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"nodeName": node, **spec},
        "status": {"phase": phase},
    }  # fmt: skip
    return read_pod(parsed(RequestingPod, document), "default")


def asking(**requests):
    return {"resources": {"requests": requests}}


def test_a_pod_of_others_takes_what_it_asks_for_by_the_rule():
    found = a_pod(
        containers=[asking(cpu="1", **{"nvidia.com/gpu": "1"}), {}],
        initContainers=[asking(cpu="2"), {**asking(cpu="500m"), "restartPolicy": "Always"}],
        overhead={"memory": "1Ki"},
    )
    whole = a_pod(containers=[asking(cpu="1")], resources={"requests": {"cpu": "3"}})

    assert PodUse(
        node="n", ours=False, taken=TakenResources(cpu_milli=2000, memory_bytes=1024, gpus=1)
    ) == found  # fmt: skip
    assert whole is not None
    assert 3000 == whole.taken.cpu_milli


def test_a_pod_of_ours_holds_the_gpus_that_the_ledger_gave():
    shares = '[{"index":3,"mask":255,"milli":1000,"memory_mib":1}]'
    found = a_pod(labels=OURS, annotations={"muster.dev/shares": shares})

    assert PodUse(node="n", ours=True, held=(3,)) == found
    assert PodUse(node="n", ours=True) == a_pod(labels=OURS)


def test_a_pod_that_is_on_no_node_or_has_ended_takes_nothing():
    assert a_pod(node="") is None
    assert a_pod(phase="Succeeded") is None
    assert a_pod(phase="Failed") is None


# ── lists and watches ──


class Api:
    """Four collections; each list has the items of the moment, each watch the lines of a queue."""

    def __init__(self):
        self.config = Path()
        self.items: dict[str, list[Any]] = {
            path: [] for path in (module.NODES, module.SLICES, module.CLAIMS, module.PODS)
        }
        self.lines: dict[str, asyncio.Queue[Any]] = {path: asyncio.Queue() for path in self.items}
        self.broken = 0
        self.lists = []
        self.version = 5

    async def answer(self, request):
        if "watch" not in request.query:
            return self._list(request)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            line = await self.lines[request.path].get()
            if line is None:
                return response
            await response.write(json.dumps(line).encode() + b"\n")

    def _list(self, request):
        if self.broken and request.path == module.NODES:
            self.broken -= 1
            return web.json_response({"message": "down"}, status=503)
        self.lists.append((request.path, dict(request.query)))
        at, size = int(request.query.get("continue", "0")), int(request.query["limit"])
        page = self.items[request.path][at : at + size]
        more = str(at + size) if at + size < len(self.items[request.path]) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"metadata": metadata, "items": page})


class Hearing:
    def __init__(self):
        self.news = []
        self.came = asyncio.Event()

    def tell(self, news):
        self.news.append(news)
        self.came.set()

    async def until(self, condition):
        async with asyncio.timeout(SECONDS):
            while not (found := [one for one in self.news if condition(one)]):
                self.came.clear()
                await self.came.wait()
        return found


@pytest.fixture
async def api(tmp_path):
    server, api = Server(), Api()
    server.answer = api.answer
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api.config = write_config(tmp_path / "config", runner.addresses[0][1])
    yield api
    await runner.cleanup()


@pytest.fixture
async def hearing(api):
    hearing = Hearing()
    source = KubernetesNodes(KubernetesSettings(config=str(api.config)), node_selector="a=b")
    task = asyncio.create_task(source.follow(hearing.tell))
    yield hearing
    task.cancel()
    await asyncio.wait([task])
    await source.close()


def listed(kind):
    return lambda news: isinstance(news, Listed) and news.kind == kind


async def test_every_kind_is_listed_in_pages_and_only_what_is_wanted_is_asked_for(api, hearing):
    api.items[module.NODES] = [
        {"metadata": {"name": f"n{at}", "resourceVersion": "1"}} for at in range(501)
    ]
    for kind in Kind:
        await hearing.until(listed(kind))

    (nodes,) = await hearing.until(listed(Kind.NODES))
    asked = dict(reversed(api.lists))
    assert 501 == len(nodes.items)
    assert "a=b" == asked[module.NODES]["labelSelector"]
    assert module.ON_NODES == asked[module.PODS]["fieldSelector"]
    assert "100" == asked[module.SLICES]["limit"]


async def test_changes_and_ends_are_told_and_a_bookmark_is_not(api, hearing):
    await hearing.until(listed(Kind.NODES))
    node = {"metadata": {"name": "n", "resourceVersion": "8"}}
    for kind in ("ADDED", "BOOKMARK", "DELETED"):
        await api.lines[module.NODES].put({"type": kind, "object": node})

    await hearing.until(lambda one: isinstance(one, Changed) and one.item is None)

    changes = [one for one in hearing.news if isinstance(one, Changed)]
    assert [("n", True), ("n", False)] == [(one.key, one.item is not None) for one in changes]


async def test_a_bookmark_as_the_api_server_writes_it_breaks_no_watch(api, hearing):
    await hearing.until(listed(Kind.PODS))
    empty = {"metadata": {"resourceVersion": "8"}, "spec": {"containers": None}, "status": {}}
    await api.lines[module.PODS].put({"type": "BOOKMARK", "object": empty})
    pod = {"metadata": {"name": "p", "namespace": "a", "resourceVersion": "9"}}
    await api.lines[module.PODS].put({"type": "ADDED", "object": pod})

    await hearing.until(lambda one: isinstance(one, Changed))

    assert 1 == sum(isinstance(one, Listed) and one.kind == Kind.PODS for one in hearing.news)


async def test_pods_of_one_name_in_two_namespaces_are_two(api, hearing):
    api.items[module.PODS] = []
    await hearing.until(listed(Kind.PODS))
    for namespace in ("a", "b"):
        pod = {
            "metadata": {"name": "p", "namespace": namespace, "resourceVersion": "9"},
            "spec": {"nodeName": "n"},
        }
        await api.lines[module.PODS].put({"type": "ADDED", "object": pod})

    await hearing.until(lambda one: isinstance(one, Changed) and one.key == "b/p")

    assert ["a/p", "b/p"] == [one.key for one in hearing.news if isinstance(one, Changed)]


async def test_a_version_that_is_gone_means_a_new_list_and_no_interruption(api, hearing):
    await hearing.until(listed(Kind.NODES))
    api.items[module.NODES] = [{"metadata": {"name": "m", "resourceVersion": "9"}}]
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    await api.lines[module.NODES].put(gone)

    await hearing.until(lambda one: listed(Kind.NODES)(one) and "m" in one.items)

    assert not [one for one in hearing.news if isinstance(one, Interrupted)]


async def test_a_server_that_is_away_is_told_and_listed_again_when_it_is_back(api, hearing):
    await hearing.until(listed(Kind.NODES))
    hearing.news.clear()
    api.broken = 2
    error = {"type": "ERROR", "object": {"code": 500, "message": "oh"}}
    await api.lines[module.NODES].put(error)

    await hearing.until(listed(Kind.NODES))

    problems = [one.problem for one in hearing.news if isinstance(one, Interrupted)]
    assert ["watch of nodes: 500 : oh", *["list of nodes: HTTP 503: down"] * 2] == problems


async def test_a_watch_is_listed_anew_after_its_time(api, monkeypatch):
    monkeypatch.setattr(following, "RELIST_SECONDS", 0.05)
    hearing = Hearing()
    source = KubernetesNodes(KubernetesSettings(config=str(api.config)))
    task = asyncio.create_task(source.follow(hearing.tell))

    async with asyncio.timeout(SECONDS):
        while len([one for one in hearing.news if listed(Kind.NODES)(one)]) < 3:
            await asyncio.sleep(0.02)

    task.cancel()
    await asyncio.wait([task])
    await source.close()
    assert not [one for one in hearing.news if isinstance(one, Interrupted)]


@pytest.mark.parametrize(("user", "told"), [("pod", None), ("other", ClaimUse(gpus=(("n", 1),)))])
def test_a_claim_of_ours_is_told_when_a_pod_of_others_uses_it(user, told):
    results = [{"driver": "gpu.nvidia.com", "pool": "n", "device": "gpu-1"}]
    document = {
        "metadata": {"labels": OURS, "ownerReferences": [{"uid": "pod"}]},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"uid": "pod"}, {"uid": user}],
        },
    }

    assert read_claim(parsed(ClaimObject, document), "default") == told
