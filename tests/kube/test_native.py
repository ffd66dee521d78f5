"""Pods and Jobs of the cluster under a whole Muster, with the real controller manager."""

import asyncio
import os
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from deploy.kube import nodes
from shared.core.admission.standing import with_next
from shared.core.model.reason import BY_CAPACITY, Reason
from tests.kube.kube_world import choose_gpus
from tests.kube.malformed_pods import (
    LARGE,
    POOL,
    REQUIRED,
    asks,
    malformed_pods,
    near,
    with_gpus,
)
from tests.kube.native_place import SECONDS, Place, bound, condition_of, names_of, running, started
from tests.kube.waiting_scenes import OTHER, SCENES
from tests.support.killing import checked
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

pytestmark = pytest.mark.timeout(400)
INSTANCE = SCHEDULER = f"native-{os.getpid()}"
NODES = 64
WAITED_SECONDS_MAX = 5
OF_POD = (
    "SELECT workload_id FROM native.pod_group JOIN gateway.workload w ON w.id = workload_id"
    " WHERE $1 = ANY(uids)"
)
COUNTED = nodes.node_name(45)
AFFINE = nodes.node_name(46)


@pytest.fixture(scope="module")
def system(kube, tmp_path_factory):
    folder = tmp_path_factory.mktemp("native") / "system"
    system = launch_on(kube.folder, folder, instance=INSTANCE, scheduler_name=SCHEDULER)
    yield system
    system.discard()


@pytest.fixture
async def stage(system, kube_namespace):
    stage = Stage(system)
    await stage.connect()
    await stage.organise()
    await stage.put(f"teams/{TEAM}", {"namespace": kube_namespace})
    await stage.until("SELECT count(*) FROM placement.node", NODES, 60)
    yield stage
    await stage.disconnect()


@pytest.fixture
def place(kube, kube_namespace):
    return Place(kube, kube_namespace, SCHEDULER)


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


async def test_devices_of_pods_are_those_of_the_ledger(stage, place, kube):
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
        checked, stage, "--kubeconfig", str(kube.kubeconfig("checker")), "--instance", INSTANCE,
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


async def test_a_gang_is_tried_only_when_it_is_whole(stage, place):
    grouped = {
        "labels": {"muster.dev/group": "four"},
        "annotations": {"muster.dev/group-size": "4"},
    }
    for name in "abc":
        place.pod(name, **grouped)

    told = "3 of 4 pods of the group four are there; it holds nothing until all are"
    place.until("it is told", lambda: ("WaitingForPods", told) in place.events("a"))
    assert [] == bound(place.pods())
    place.pod("d", **grouped)
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 4 and r)

    ranks = {
        one["metadata"]["name"]: one["metadata"]["labels"]["muster.dev/rank"] for one in found
    }
    assert {"a": "0", "b": "1", "c": "2", "d": "3"} == ranks


def _create(place, one):
    """By its kind of owner, as a user would; the owner makes one pod."""
    if one.kind == "pod":
        place.pod(one.name, one.spec, **one.metadata)
        return
    template = {"metadata": one.metadata, "spec": place.spec(one.spec)}
    if one.kind in ("job", "indexed"):
        template["spec"]["restartPolicy"] = "Never"
        mode = "Indexed" if one.kind == "indexed" else "NonIndexed"
        place.jobs(one.name, {"completionMode": mode, "template": template})
        return
    name = {"malformed": one.name}
    template["metadata"] = {**one.metadata, "labels": {**one.metadata.get("labels", {}), **name}}
    spec = {"selector": {"matchLabels": name}, "template": template}
    body = {"metadata": {"name": one.name}, "spec": spec}
    place.call("POST", f"/apis/apps/v1/namespaces/{{}}/{one.kind}s", body)


async def test_205_malformed_pods_are_told_once_and_keep_no_other_waiting(stage, place):
    place.pod("before")
    place.until("it runs", lambda: running(place.pods()))
    wrong = list(malformed_pods())
    for number, one in enumerate(wrong):
        _create(place, one)
        if number in (50, 150):
            place.pod(f"sound-{number}", annotations={"large": "x" * LARGE})
    begun = time.monotonic()
    place.pod("last", asks(**{"nvidia.com/gpu": "1"}))
    place.until("the last one runs", lambda: "last" in names_of(running(place.pods())))
    waited = time.monotonic() - begun

    place.until("all are told", lambda: len(place.all_events()) >= len(wrong))
    told = place.all_events()
    notes = {one.name: [told[pod] for pod in told if one.is_of(pod)] for one in wrong}
    as_wanted = {one.name: [[one.words]] for one in wrong}
    assert as_wanted == {
        one.name: [
            [one.words if one.words in note else note for note in pod] for pod in notes[one.name]
        ]
        for one in wrong
    }
    found = place.pods()
    reasons = {
        c["reason"]
        for pod in found
        for c in pod["status"]["conditions"]
        if c["status"] == "False" and c["type"] == "PodScheduled"
    }
    assert {"before", "sound-50", "sound-150", "last"} == names_of(bound(found))
    assert reasons == {"PodNotHonoured", "Rejected"}
    assert waited < WAITED_SECONDS_MAX


async def test_nothing_is_lost_or_doubled_when_services_die(stage, place, system, kube):
    spec = {"completionMode": "Indexed", "parallelism": 8, "completions": 8}
    for number in range(12):
        place.pod(f"alone-{number}")
        if number < 3:
            place.job(f"gang-{number}", spec)
        system.kill(("native", "binder", "admission", "placement")[number % 4])

    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 36 and r)
    clean = await asyncio.to_thread(
        checked, stage, "--kubeconfig", str(kube.kubeconfig("checker")), "--instance", INSTANCE,
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


@asynccontextmanager
async def staged(stage, place, name):
    """A pod that waits, with what is so before; node and team are as before at the end."""
    scene = SCENES[name]
    node, own = f"/api/v1/nodes/{scene.node}", {}
    if scene.queue is not None:
        await stage.put(f"queues/{name}", {"team": TEAM, **scene.queue})
        own = {"labels": {"muster.dev/queue": name}}
    if scene.node:
        change = {"metadata": {"labels": {POOL: scene.node}}}
        place.call("PATCH", node, {**change, "spec": {"unschedulable": scene.cordoned}})
    try:
        for number, spec in enumerate(scene.before):
            place.pod(f"before-{number}", spec, **own)
        place.until("they run", lambda: len(running(place.pods())) == len(scene.before))
        await stage.put(f"teams/{TEAM}", scene.team)
        for number, spec in enumerate(scene.ahead):
            place.pod(f"ahead-{number}", spec, **own, **scene.metadata)
        place.pod("waits", scene.spec, **own, **scene.metadata)
        yield
    finally:
        if scene.node:
            labels = {"metadata": {"labels": {POOL: None}}}
            place.call("PATCH", node, {**labels, "spec": {"unschedulable": False}})
        await stage.put(f"teams/{TEAM}", dict.fromkeys(scene.team))


async def _until_told(stage, place, code):
    """The workload of the pod that waits, its condition, and the sentence of why: they agree."""
    deadline = time.monotonic() + SECONDS
    why: dict[str, Any] = {}
    told: dict[str, Any] = {}
    sentence = ""
    while why.get("reason") != code or told.get("message") != sentence:
        assert time.monotonic() < deadline, (code, why, place.all_events())
        await asyncio.sleep(0.2)
        (pod,) = (one for one in place.pods() if one["metadata"]["name"] == "waits")
        told = condition_of(pod, "PodScheduled") or {}
        for row in await stage.rows.fetch(OF_POD, pod["metadata"]["uid"]):
            why = await stage.get(f"workloads/{row['workload_id']}/why")
            sentence = with_next(why["message"], why["next_step"])
    return why["id"], told, sentence


@pytest.mark.parametrize("name", SCENES)
async def test_a_pod_says_what_why_says_and_calls_for_a_node_only_where_one_helps(
    stage, place, name
):
    scene = SCENES[name]
    async with staged(stage, place, name):
        if scene.command or scene.then:
            work, _, _ = await _until_told(stage, place, Reason.WAITING_FOR_QUOTA)
            if scene.command:
                await stage.command(work, scene.command)
            if scene.then:
                await stage.put(f"flavors/{OTHER}", {"products": ["none"]})
                await stage.put(f"queues/{name}", scene.then)
        _, told, sentence = await _until_told(stage, place, scene.code)

    helps = {one.value for one in BY_CAPACITY}
    events = place.events("waits")
    assert (scene.code, sentence) in events
    assert told["reason"] == ("Unschedulable" if scene.code in helps else scene.code)
    assert scene.code in helps or not helps & {reason for reason, _ in events}


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


async def test_a_job_that_a_quota_of_its_namespace_keeps_short_names_it(stage, place):
    path, resource = "/api/v1/namespaces/{}/resourcequotas", "requests.nvidia.com/gpu"
    body = {"metadata": {"name": "gpus"}, "spec": {"hard": {resource: "3"}}}
    place.call("POST", path, body)
    place.until(
        "the quota counts",
        lambda: place.call("GET", f"{path}/gpus")["status"].get("hard"),
    )
    spec = {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    place.job("short", spec)

    short = "3 of 4 pods of the group short are there"

    def told():
        notes = [one for notes in place.all_events().values() for one in notes]
        return [one for one in notes if "hard 3" in one and short in one]

    (first, *_) = place.until("the quota is named", told)
    waiting = bound(place.pods())
    place.call("PATCH", f"{path}/gpus", {"spec": {"hard": {resource: "4"}}})
    place.until("all run", lambda: len(running(place.pods())) == 4)

    assert [] == waiting, "a gang is whole or not at all"
    assert f"ResourceQuota gpus of namespace {place.namespace} admits no further pod" in first
    assert f"{resource} has hard 3, used 3. Next: raise it" in first


async def test_a_pod_has_the_instances_of_mig_that_the_ledger_chose(stage, place):
    place.pod("parts", asks(**{"nvidia.com/mig-1g.10gb": "2"}))

    (pod,) = place.until("it runs", lambda: running(place.pods()))
    told = pod["status"]["extendedResourceClaimStatus"]
    path = f"/apis/resource.k8s.io/v1/namespaces/{{}}/resourceclaims/{told['resourceClaimName']}"
    results = place.call("GET", path)["status"]["allocation"]["devices"]["results"]

    assert ["nvidia.com/mig-1g.10gb"] == [one["resourceName"] for one in told["requestMappings"]]
    assert 2 == len({one["device"] for one in results})
    assert all("-mig-1g10gb-" in one["device"] for one in results)
