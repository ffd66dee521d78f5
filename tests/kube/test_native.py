"""Pods and Jobs of the cluster under a whole Muster, with the real controller manager."""

import asyncio

import pytest

from deploy.kube import nodes
from tests.kube.kube_world import choose_gpus
from tests.kube.malformed_pods import (
    POOL,
    REQUIRED,
    asks,
    near,
    with_gpus,
)
from tests.kube.native_place import running, started
from tests.support.killing import checked

pytestmark = pytest.mark.timeout(400)
COUNTED = nodes.node_name(45)
AFFINE = nodes.node_name(46)


async def test_a_bare_pod_runs_where_the_ledger_says(stage, place):
    place.pod("alone")

    (pod,) = place.until("it runs", lambda: running(place.pods()))
    work = pod["metadata"]["labels"]["muster.dev/workload"]
    (row,) = await stage.rows.fetch(
        "SELECT node FROM placement.allocation WHERE workload_id = $1", work
    )
    ends = {"metadata": {"annotations": {"muster.dev/duration-seconds": "1"}}}
    place.call("PATCH", "/api/v1/namespaces/{}/pods/alone", ends)
    await stage.reaches(work, "succeeded", 60)

    assert row["node"] == pod["spec"]["nodeName"]
    (left,) = place.pods()
    assert "Succeeded" == left["status"]["phase"], "its pod is its owner's, and stays"


async def test_an_indexed_job_runs_whole_in_the_order_of_its_ranks(stage, place):
    spec = {"completionMode": "Indexed", "parallelism": 16, "completions": 16}
    place.job("gang", spec, annotations={"muster.dev/duration-seconds": "3"})

    # The first may be over before the last one is seen to run.
    found = place.until("all run", lambda: (r := started(place.pods())) and len(r) == 16 and r)
    labels = [one["metadata"]["labels"] for one in found]
    (work,) = {one["muster.dev/workload"] for one in labels}
    await stage.reaches(work, "succeeded", 60)

    index = "batch.kubernetes.io/job-completion-index"
    assert all(one[index] == one["muster.dev/rank"] for one in labels)
    job = place.until(
        "the job is complete",
        lambda: (
            (one := place.call("GET", "/apis/batch/v1/namespaces/{}/jobs/gang"))["status"].get(
                "succeeded"
            )
            == 16
            and one
        ),
    )
    assert not job["status"].get("failed")


async def test_devices_of_pods_are_those_of_the_ledger(stage, place, kube, scheduler):
    place.pod("two", {"containers": [with_gpus(2)]})

    (pod,) = place.until("it runs", lambda: running(place.pods()))
    told = pod["status"]["extendedResourceClaimStatus"]
    path = f"/apis/resource.k8s.io/v1/namespaces/{{}}/resourceclaims/{told['resourceClaimName']}"
    claim = place.call("GET", path)
    held = await stage.rows.fetch(
        "SELECT gpu FROM placement.allocation WHERE workload_id = $1 ORDER BY gpu",
        pod["metadata"]["labels"]["muster.dev/workload"],
    )

    clean = await asyncio.to_thread(
        checked, stage, "--kubeconfig", str(kube.kubeconfig("checker")), "--instance", scheduler,
    )  # fmt: skip

    assert "clean" == clean
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [f"gpu-{row['gpu']}" for row in held] == sorted(one["device"] for one in results)
    assert {pod["spec"]["nodeName"]} == {one["pool"] for one in results}
    assert [pod["metadata"]["uid"]] == [one["uid"] for one in claim["status"]["reservedFor"]]


@pytest.mark.parametrize("kind", ["deployments", "statefulsets"])
async def test_pods_of_services_run_each_alone_and_come_back(stage, place, kind):
    body = {
        "metadata": {"name": kind},
        "spec": {
            "replicas": 3,
            "serviceName": "none",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": kind}},
            "template": {"metadata": {"labels": {"app": kind}}, "spec": place.spec()},
        },
    }
    if kind == "deployments":
        del body["spec"]["serviceName"], body["spec"]["podManagementPolicy"]
    place.call("POST", f"/apis/apps/v1/namespaces/{{}}/{kind}", body)

    first = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 3 and r)
    gone = first[0]["metadata"]
    place.call("DELETE", f"/api/v1/namespaces/{{}}/pods/{gone['name']}")
    place.until(
        "another one runs",
        lambda: (
            len(r := running(place.pods())) == 3
            and gone["uid"] not in {one["metadata"]["uid"] for one in r}
        ),
    )
    works = {one["metadata"]["labels"]["muster.dev/workload"] for one in running(place.pods())}
    before = gone["labels"]["muster.dev/workload"]

    assert 3 == len(works)
    if kind == "deployments":  # another pod is other work
        await stage.reaches(before, "cancelled", 60)
    assert (before in works) is (kind == "statefulsets")


async def test_a_job_that_is_evicted_does_not_fail_and_runs_again(stage, place):
    ignore = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    spec = {
        "completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimit": 0,
        "podFailurePolicy": ignore,
    }  # fmt: skip
    place.job("kept", spec)
    first = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 2 and r)
    work = first[0]["metadata"]["labels"]["muster.dev/workload"]

    await stage.command(work, "evict")
    before = {one["metadata"]["uid"] for one in first}
    again = place.until(
        "all run again",
        lambda: (
            len(r := running(place.pods())) == 2
            and not before & {one["metadata"]["uid"] for one in r}
            and r
        ),
    )
    job = place.call("GET", "/apis/batch/v1/namespaces/{}/jobs/kept")

    assert {work} == {one["metadata"]["labels"]["muster.dev/workload"] for one in again}
    assert not job["status"].get("failed")


async def test_nothing_is_lost_or_doubled_when_services_die(stage, place, system, kube, scheduler):
    spec = {"completionMode": "Indexed", "parallelism": 8, "completions": 8}
    for number in range(12):
        place.pod(f"alone-{number}")
        if number < 3:
            place.job(f"gang-{number}", spec)
        system.kill(("native", "binder", "admission", "placement")[number % 4])

    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 36 and r)
    clean = await asyncio.to_thread(
        checked, stage, "--kubeconfig", str(kube.kubeconfig("checker")), "--instance", scheduler,
    )  # fmt: skip
    (count,) = await stage.rows.fetch(
        "SELECT count(*)::int AS n FROM native.pod_group WHERE key LIKE $1 || '/%'",
        place.namespace,
    )

    assert 36 == len({one["metadata"]["uid"] for one in found})
    assert "clean" == clean
    assert 15 == count["n"]


async def test_a_pod_runs_in_the_pool_of_its_node_affinity(stage, place):
    path = f"/api/v1/nodes/{AFFINE}"
    place.call("PATCH", path, {"metadata": {"labels": {POOL: AFFINE}}})
    try:
        place.pod("affine", near({"key": POOL, "operator": "In", "values": [AFFINE]}))
        (pod,) = place.until("it runs", lambda: running(place.pods()))
    finally:
        place.call("PATCH", path, {"metadata": {"labels": {POOL: None}}})

    assert AFFINE == pod["spec"]["nodeName"]


async def test_a_pod_takes_what_its_kubelet_chose_where_a_plugin_counts(stage, place, kube):
    path = f"/api/v1/nodes/{COUNTED}"
    place.call("PATCH", path, {"metadata": {"labels": {POOL: COUNTED}}})
    try:
        place.pod("counted", {"nodeSelector": {POOL: COUNTED}, "containers": [with_gpus(2)]})
        (pod,) = place.until("it runs", lambda: running(place.pods()))
        name = pod["metadata"]["name"]
        choose_gpus(kube, f"/api/v1/namespaces/{place.namespace}/pods/{name}", "GPU-x", "GPU-y")
        await stage.until("SELECT count(*) FROM placement.node_devices", 1, 30)
    finally:
        place.call("PATCH", path, {"metadata": {"labels": {POOL: None}}})

    assert COUNTED == pod["spec"]["nodeName"]
    assert "extendedResourceClaimStatus" not in pod["status"]


def _apart_by(job):
    """Anti-affinity and a spread constraint, each to the pods of a Job."""
    own = {"matchLabels": {"batch.kubernetes.io/job-name": job}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": own}
    hard = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {
        "anti": {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}},
        "spread": {"topologySpreadConstraints": [hard]},
    }[job]


async def test_pods_of_a_group_that_keep_apart_have_a_node_each(stage, place):
    spec = {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    for job in ("anti", "spread"):
        place.job(job, spec, pod=_apart_by(job))

    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 8 and r)
    for job in ("anti", "spread"):
        nodes_of = {
            one["spec"]["nodeName"]
            for one in found
            if one["metadata"]["labels"]["batch.kubernetes.io/job-name"] == job
        }
        assert 4 == len(nodes_of), job


async def test_a_pod_has_the_instances_of_mig_that_the_ledger_chose(stage, place):
    place.pod("parts", asks(**{"nvidia.com/mig-1g.10gb": "2"}))

    (pod,) = place.until("it runs", lambda: running(place.pods()))
    told = pod["status"]["extendedResourceClaimStatus"]
    path = f"/apis/resource.k8s.io/v1/namespaces/{{}}/resourceclaims/{told['resourceClaimName']}"
    results = place.call("GET", path)["status"]["allocation"]["devices"]["results"]

    assert ["nvidia.com/mig-1g.10gb"] == [one["resourceName"] for one in told["requestMappings"]]
    assert 2 == len({one["device"] for one in results})
    assert all("-mig-1g10gb-" in one["device"] for one in results)
