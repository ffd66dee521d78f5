"""The local system on a real API server, as `make up CLUSTER=kube` starts it."""

import asyncio
import json
import os
import time

import pytest

from deploy.kube import nodes
from shared.core.model.nouns import GpuChoice, GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.kube.kube_world import choose_gpus
from tests.support.killing import checked
from tests.support.kube_system import launch_on
from tests.support.system import TEAM

pytestmark = pytest.mark.timeout(400)
RANKS = 4
GONE_SECONDS = 40
COUNTED, POOL = nodes.node_name(45), "muster.dev/pool"
INSTANCE = f"whole-{os.getpid()}"


@pytest.fixture
def counted_node(kube):
    """A node whose GPUs a device plugin counts, dedicated to a pool."""
    path = f"/api/v1/nodes/{COUNTED}"
    with kube.client() as admin:
        admin.demand("PATCH", path, {"metadata": {"labels": {POOL: COUNTED}}})
        yield COUNTED
        admin.demand("PATCH", path, {"metadata": {"labels": {POOL: None}}})


@pytest.fixture
def system(kube, tmp_path, counted_node):
    system = launch_on(kube.folder, tmp_path / "system", instance=INSTANCE)
    yield system
    system.discard()


def a_gang():
    worker = PodSet(
        count=RANKS, gpu=GpuRequest(count=8), cpu_milli=1_000, memory_mib=1_024, image="a/b:1"
    )
    return WorkloadSpec(name="gang", kind=WorkloadKind.TRAINING, queue=TEAM, pod_sets=(worker,))


def pods(kube, namespace):
    with kube.client() as admin:
        return admin.demand("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]


def told(pod):
    return {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}


async def test_a_gang_by_kafka_runs_as_pods_on_the_nodes_of_the_ledger(
    stage, kube, kube_namespace
):
    await stage.submit([a_gang()], "gang")
    gang = workload_id(TEAM, "gang-0")
    await stage.until("SELECT count(*) FROM gateway.workload", 1, 60)

    await stage.reaches(gang, "running", 60)
    found = sorted(pods(kube, kube_namespace), key=lambda pod: told(pod)["RANK"])
    rows = await stage.rows.fetch(
        "SELECT DISTINCT rank, node FROM placement.allocation ORDER BY rank"
    )
    clean = await asyncio.to_thread(
        checked, stage, "--kubeconfig", str(kube.kubeconfig("checker")),
        "--instance", INSTANCE,
    )  # fmt: skip
    await stage.command(gang, "cancel")
    deadline = time.monotonic() + GONE_SECONDS
    while pods(kube, kube_namespace) and time.monotonic() < deadline:
        await asyncio.sleep(0.2)

    assert [(str(row["rank"]), row["node"]) for row in rows] == [
        (told(pod)["RANK"], pod["spec"]["nodeName"]) for pod in found
    ]
    assert {"4"} == {told(pod)["WORLD_SIZE"] for pod in found}
    assert {"0"} == {told(pod)["LOCAL_RANK"] for pod in found}
    assert "clean" == clean
    assert [] == pods(kube, kube_namespace)


async def test_placement_hears_which_gpus_a_kubelet_chose(
    stage, kube, kube_namespace, counted_node
):
    worker = PodSet(gpu=GpuRequest(count=2), cpu_milli=1_000, memory_mib=1_024, image="a/b:1")
    spec = WorkloadSpec(
        name="chosen", kind=WorkloadKind.TRAINING, queue=TEAM, pod_sets=(worker,),
        gpu_choice=GpuChoice(node_pool=counted_node),
    )  # fmt: skip
    await stage.submit([spec], "chosen")
    work = workload_id(TEAM, "chosen-0")
    await stage.until("SELECT count(*) FROM gateway.workload", 1, 60)
    await stage.reaches(work, "running", 60)
    (pod,) = pods(kube, kube_namespace)
    path = f"/api/v1/namespaces/{kube_namespace}/pods/{pod['metadata']['name']}"

    choose_gpus(kube, path, "GPU-x", "GPU-y")
    await stage.until("SELECT count(*) FROM placement.node_devices", 1, 30)
    (row,) = await stage.rows.fetch("SELECT node, body FROM placement.node_devices")
    held = await stage.rows.fetch("SELECT gpu FROM placement.allocation ORDER BY gpu")

    told = json.loads(row["body"])["gpus"]
    assert (counted_node, counted_node) == (row["node"], pod["spec"]["nodeName"])
    assert [str(one["gpu"]) for one in held] == sorted(told)
    assert ["GPU-x", "GPU-y"] == sorted(one["uuid"] for one in told.values())
    assert {(work, 1)} == {(one["workload_id"], one["attempt"]) for one in told.values()}
