"""Pods as other controllers make them, with the objects that tell their size, on a real server.

The controllers are not here: their objects and the labels of their pods are as they write them.
"""

import os

import pytest

from tests.kube.test_native import Place, running
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

pytestmark = pytest.mark.timeout(240)
SCHEDULER = f"groups-{os.getpid()}"
SIZE = 4
JOBSET, KUBEFLOW = "jobset.sigs.k8s.io", "training.kubeflow.org"


def _coscheduling(number, uid):
    del number, uid
    return {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}


def _volcano(number, uid):
    del uid
    annotations = {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker"}
    return {"annotations": annotations, "labels": {"volcano.sh/task-index": str(number)}}


def _kai(number, uid):
    del number, uid
    return {"annotations": {"pod-group-name": "g"}}


def _jobset(number, uid):
    of_set = {"jobset-uid": uid, "jobset-name": "g", "job-global-index": str(number // 2)}
    labels = {f"{JOBSET}/{key}": value for key, value in of_set.items()}
    return {"labels": {**labels, "batch.kubernetes.io/job-completion-index": str(number % 2)}}


def _kubeflow(number, uid):
    role, index = ("master", 0) if number == 0 else ("worker", number - 1)
    of_job = {"job-name": "g", "replica-type": role, "replica-index": str(index)}
    version = "kubeflow.org/v1"
    owner = {"apiVersion": version, "kind": "PyTorchJob", "name": "g", "uid": uid}
    labels = {f"{KUBEFLOW}/{key}": value for key, value in of_job.items()}
    return {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}


def _ray(number, uid):
    labels = {"ray.io/cluster": "g", "ray.io/node-type": "worker" if number else "head"}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "g", "uid": uid}
    return {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}


MEMBERS = {"minMember": SIZE}
WORKERS = [{"groupName": "a", "replicas": 1, "numOfHosts": 2}, {"groupName": "b", "replicas": 1}]
JOBS = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2}}}
ROLES = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
KINDS = {
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1", "PodGroup", MEMBERS, _coscheduling),
    "volcano": ("scheduling.volcano.sh/v1beta1", "PodGroup", MEMBERS, _volcano),
    "kai": ("scheduling.run.ai/v2alpha2", "PodGroup", MEMBERS, _kai),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [JOBS]}, _jobset),
    "ray": ("ray.io/v1", "RayCluster", {"workerGroupSpecs": WORKERS}, _ray),
    "pytorch": ("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": ROLES}, _kubeflow),
}
RANKED = {"volcano", "jobset", "pytorch"}
HEAD = {
    "containers": [{"name": "head", "image": "a/b:1", "resources": {"limits": {"cpu": "500m"}}}]
}


def _definition(version, kind):
    group, _, number = version.partition("/")
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": number, "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture(scope="module")
def definitions(kube):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = [_definition(version, kind) for version, kind, _, _ in KINDS.values()]
    with kube.client() as admin:
        for one in made:
            admin.demand("POST", path, one)
    yield
    with kube.client() as admin:
        for one in made:
            admin.demand("DELETE", f"{path}/{one['metadata']['name']}")


@pytest.fixture(scope="module")
def system(kube, definitions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups") / "system"
    system = launch_on(kube.folder, folder, instance=SCHEDULER, scheduler_name=SCHEDULER)
    yield system
    system.discard()


@pytest.fixture
async def place(system, kube, kube_namespace):
    stage = Stage(system)
    await stage.connect()
    await stage.organise()
    await stage.put(f"teams/{TEAM}", {"namespace": kube_namespace})
    await stage.until("SELECT count(*) FROM placement.node", 64, 60)
    yield Place(kube, kube_namespace)
    await stage.disconnect()


def _pod(place, name, metadata, spec=None):
    place.pod(name, {"schedulerName": SCHEDULER, **(spec or {})}, **metadata)


@pytest.mark.parametrize("name", KINDS)
async def test_a_group_of_another_controller_runs_whole_and_in_its_order(place, name):
    version, kind, spec, member = KINDS[name]
    path = f"/apis/{version}/namespaces/{{}}/{kind.lower()}s"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "g"}, "spec": spec}
    uid = place.call("POST", path, body)["metadata"]["uid"]
    for number in (3, 2, 1):
        _pod(place, f"p{SIZE - number}", member(number, uid))

    told = place.until("it is told", lambda: place.events("p1"))
    assert not running(place.pods())
    _pod(place, "p4", member(0, uid), HEAD if name == "ray" else None)
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == SIZE and r)

    assert "WaitingForPods" == told[0][0]
    assert f"of {SIZE} pods" in told[0][1]
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in found}
    assert 1 == len({one["muster.dev/workload"] for one in labels.values()})
    if name == "ray":
        assert "0" == labels["p4"]["muster.dev/rank"], "the head, which has no GPU"
    if name in RANKED:
        ranks = {pod: one["muster.dev/rank"] for pod, one in labels.items()}
        assert {"p4": "0", "p3": "1", "p2": "2", "p1": "3"} == ranks


async def test_a_group_whose_object_is_missing_waits_until_it_is_created(place):
    for name in ("a", "b"):
        _pod(place, name, _coscheduling(0, ""))

    told = place.until("it is told", lambda: place.events("a"))
    assert told[0][1].startswith("the coscheduling g that tells the size of the group does not")
    version, kind, _, _ = KINDS["coscheduling"]
    path = f"/apis/{version}/namespaces/{{}}/podgroups"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "g"}}
    place.call("POST", path, {**body, "spec": {"minMember": 2}})

    assert place.until("both run", lambda: len(running(place.pods())) == 2)
