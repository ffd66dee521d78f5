"""Pods as other controllers make them, with the objects that tell their size, on a real server.

The controllers are not here: their objects and the labels of their pods are as they write them.
"""

import pytest

from deploy.kube import nodes
from tests.kube.malformed_pods import POOL, with_gpus
from tests.kube.native_place import condition_of, running

pytestmark = pytest.mark.timeout(240)
SIZE = 4
HOLDS_NOTHING = "it holds nothing until all are"
ONLY = nodes.node_name(48)
TOLD = ("status", "reason", "message")
INDEX = "batch.kubernetes.io/job-completion-index"
JOBSET, KUBEFLOW = "jobset.sigs.k8s.io", "training.kubeflow.org"


def _kubernetes(number, uid):
    del number, uid
    return {}


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


def _trainjob(number, uid):
    """Of the JobSet that a TrainJob becomes by the runtime torch-distributed."""
    of_set = {"jobset-uid": uid, "jobset-name": "g", "replicatedjob-name": "node"}
    labels = {f"{JOBSET}/{key}": value for key, value in of_set.items()}
    indexes = {f"{JOBSET}/job-global-index": "0", INDEX: str(number)}
    return {"labels": {**labels, **indexes}}


def _kubeflow(number, uid):
    role, index = ("master", 0) if number == 0 else ("worker", number - 1)
    of_job = {"job-name": "g", "replica-type": role, "replica-index": str(index)}
    version = "kubeflow.org/v1"
    owner = {"apiVersion": version, "kind": "PyTorchJob", "name": "g", "uid": uid}
    labels = {f"{KUBEFLOW}/{key}": value for key, value in of_job.items()}
    return {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}


def _ray(number, uid):
    kind, group = ("worker", "a") if number else ("head", "headgroup")
    of_node = {"is-ray-node": "yes", "cluster": "g", "node-type": kind, "group": group}
    labels = {f"ray.io/{key}": value for key, value in of_node.items()}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "g", "uid": uid}
    return {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}


MEMBERS = {"minMember": SIZE}
WORKERS = [{"groupName": "a", "replicas": 1, "numOfHosts": 2}, {"groupName": "b", "replicas": 1}]
JOBS = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 2, "completions": 2}}}
NODE = {"name": "node", "replicas": 1, "template": {"spec": {"parallelism": 4, "completions": 4}}}
ROLES = {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}
UPSTREAM = "scheduling.k8s.io/v1beta1"
KINDS = {
    "kubernetes": (
        UPSTREAM,
        "PodGroup",
        {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
        _kubernetes,
    ),
    "coscheduling": ("scheduling.x-k8s.io/v1alpha1", "PodGroup", MEMBERS, _coscheduling),
    "volcano": ("scheduling.volcano.sh/v1beta1", "PodGroup", MEMBERS, _volcano),
    "kai": ("scheduling.run.ai/v2alpha2", "PodGroup", MEMBERS, _kai),
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [JOBS]}, _jobset),
    "trainjob": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [NODE]}, _trainjob),
    "ray": ("ray.io/v1", "RayCluster", {"workerGroupSpecs": WORKERS}, _ray),
    "pytorch": ("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": ROLES}, _kubeflow),
}
LWS, LWS_VERSION = "leaderworkerset.sigs.k8s.io", "leaderworkerset.x-k8s.io/v1"


def _ordered_jobset(number, uid):
    part, index = ("lead", 0) if number == 0 else ("work", number - 1)
    labels = {"replicatedjob-name": part, "job-global-index": str(min(number, 1))}
    found = _jobset(0, uid)["labels"] | {f"{JOBSET}/{key}": text for key, text in labels.items()}
    return {"labels": {**found, "batch.kubernetes.io/job-completion-index": str(index)}}


def _lws(number, uid):
    del uid
    of_group = {"name": "g", "group-key": "a1", "worker-index": str(number)}
    labels = {f"{LWS}/{key}": text for key, text in of_group.items()}
    return {"labels": labels, "annotations": {f"{LWS}/size": "3"}}


LEAD = {"name": "lead", "replicas": 1}
WORK = {"name": "work", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2}}}
ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": [LEAD, WORK]}
GROUP_OF_THREE = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 3}}
IN_ORDER = {
    "jobset": ("jobset.x-k8s.io/v1alpha2", "JobSet", ORDER, _ordered_jobset),
    "lws": (LWS_VERSION, "LeaderWorkerSet", GROUP_OF_THREE, _lws),
}
OF_GROUP = {"schedulingGroup": {"podGroupName": "g"}}
POD_GROUPS = ("kubernetes", "coscheduling", "volcano", "kai")
RANKED = {"volcano", "jobset", "trainjob", "pytorch"}
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


@pytest.fixture(scope="module", autouse=True)
def definitions(kube):
    """Before the system, which reads them when it starts."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    kinds = {found[:2] for found in (*KINDS.values(), *IN_ORDER.values())}
    made = [_definition(version, kind) for version, kind in kinds if version != UPSTREAM]
    with kube.client() as admin:
        for one in made:
            admin.demand("POST", path, one)
    yield
    with kube.client() as admin:
        for one in made:
            admin.demand("DELETE", f"{path}/{one['metadata']['name']}")


def _create(place, name, object_name="g", *, spec=None, kinds=KINDS):
    """The object of a kind of the table; its uid."""
    version, kind, own, _ = kinds[name]
    path = f"/apis/{version}/namespaces/{{}}/{kind.lower()}s"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": object_name}}
    return place.call("POST", path, {**body, "spec": spec or own})["metadata"]["uid"]


@pytest.mark.parametrize("name", KINDS)
async def test_a_group_of_another_controller_runs_whole_and_in_its_order(place, name):
    member, uid = KINDS[name][-1], _create(place, name)
    own = OF_GROUP if name == "kubernetes" else {}
    for number in (3, 2, 1):
        place.pod(f"p{SIZE - number}", own, **member(number, uid))

    told = ("WaitingForPods", f"3 of {SIZE} pods of the group g are there; {HOLDS_NOTHING}")
    place.until("its pods are told", lambda: told in place.events("p1"))
    if name in POD_GROUPS:
        place.until("it is told", lambda: told in place.events("g"))
    assert not running(place.pods())
    place.pod("p4", HEAD if name == "ray" else own, **member(0, uid))
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == SIZE and r)

    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in found}
    assert 1 == len({one["muster.dev/workload"] for one in labels.values()})
    if name == "ray":
        assert "0" == labels["p4"]["muster.dev/rank"], "the head, which has no GPU"
    if name in RANKED:
        ranks = {pod: one["muster.dev/rank"] for pod, one in labels.items()}
        assert {"p4": "0", "p3": "1", "p2": "2", "p1": "3"} == ranks


async def test_a_group_of_kubernetes_has_the_condition_of_its_pods(place, stage):
    path = f"/apis/{UPSTREAM}/namespaces/{{}}/podgroups"
    _create(place, "kubernetes", spec={"schedulingPolicy": {"gang": {"minCount": 2}}})
    node = f"/api/v1/nodes/{ONLY}"
    place.call("PATCH", node, {"metadata": {"labels": {POOL: ONLY}}})
    here = {"nodeSelector": {POOL: ONLY}}

    def told():
        found = condition_of(place.call("GET", f"{path}/g"), "PodGroupInitiallyScheduled")
        return found and {key: found[key] for key in TOLD}

    def both_say(reason):
        (pod,) = (one for one in place.pods() if one["metadata"]["name"] == "a")
        ours = condition_of(pod, "PodScheduled")
        return ours and ours["reason"] == reason and told() == {key: ours[key] for key in TOLD}

    try:
        place.pod("full", {**here, "containers": [with_gpus(8)]})
        place.until("it runs", lambda: running(place.pods()))
        half = {**here, **OF_GROUP, "containers": [with_gpus(4)]}
        place.pod("a", half)
        place.until("the group is short", lambda: both_say("WaitingForPods"))
        place.pod("b", half)
        place.until("a node would help", lambda: both_say("Unschedulable"))
        place.call("DELETE", "/api/v1/namespaces/{}/pods/full")
        found = place.until(
            "it has its nodes", lambda: (t := told()) and t["status"] == "True" and t
        )
        await _delete_group(place, stage, path, "ab")
    finally:
        place.call("PATCH", node, {"metadata": {"labels": {POOL: None}}})

    assert ("Scheduled", "all 2 pods have their nodes") == (found["reason"], found["message"])


async def _delete_group(place, stage, path, pods):
    """The group and its pods; nothing is waited for, as nothing makes pods of it any more."""
    (one,) = (found for found in place.pods() if found["metadata"]["name"] == pods[0])
    work = one["metadata"]["labels"]["muster.dev/workload"]
    for name in pods:
        place.call("DELETE", f"/api/v1/namespaces/{{}}/pods/{name}")
    place.call("DELETE", f"{path}/g")
    over = "SELECT count(*) FROM placement.workload WHERE over AND id"
    await stage.until(f"{over} = '{work}'", 1, 20)


@pytest.mark.parametrize("name", IN_ORDER)
async def test_what_starts_in_order_runs_part_by_part_and_each_part_whole(place, name):
    member, uid = IN_ORDER[name][-1], _create(place, name, kinds=IN_ORDER)
    place.pod("first", **member(0, uid))

    place.until("the first runs before the others are made", lambda: running(place.pods()))
    place.pod("second", **member(1, uid))
    place.until("it is told", lambda: _told(place, "second", "1 of 2 pods"))
    alone = running(place.pods())
    place.pod("third", **member(2, uid))
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 3 and r)

    assert 1 == len(alone), "the second part is whole or not at all"
    works = {one["metadata"]["name"]: one["metadata"]["labels"] for one in found}
    of = {pod: labels["muster.dev/workload"] for pod, labels in works.items()}
    assert of["first"] != of["second"] == of["third"]


async def test_the_submitter_of_a_ray_job_is_no_member_of_its_cluster(place):
    uid = _create(place, "ray")
    for number in range(1, SIZE):
        place.pod(f"worker-{number}", **_ray(number, uid))
    submitter = {**place.spec(HEAD), "restartPolicy": "Never"}
    place.jobs("submitter", {"backoffLimit": 2, "template": {"spec": submitter}})

    (first,) = place.until("the submitter runs", lambda: running(place.pods()))
    place.pod("head", HEAD, **_ray(0, uid))
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) > SIZE and r)

    works = {
        one["metadata"]["name"]: one["metadata"]["labels"]["muster.dev/workload"] for one in found
    }
    alone = works.pop(first["metadata"]["name"])
    assert first["metadata"]["name"].startswith("submitter-")
    assert {alone} != set(works.values())
    assert 1 == len(set(works.values()))


async def test_pods_beyond_the_least_of_a_group_wait_and_are_told_so(place):
    _create(place, "coscheduling", spec={"minMember": 2})
    for name in "abc":
        place.pod(name, **_coscheduling(0, ""))

    place.until("the least runs", lambda: len(running(place.pods())) == 2)
    (left,) = (one for one in place.pods() if not one["spec"].get("nodeName"))
    (told,) = place.until("it is told", lambda: _beyond(place, left["metadata"]["name"]))

    assert told.startswith("the group has its 2 pods, as its size tells; give the group the size")
    assert 2 == len(running(place.pods()))


def _told(place, pod, words):
    """Whether a pod has an event with these words."""
    return any(words in note for _, note in place.events(pod))


def _beyond(place, pod):
    return [note for reason, note in place.events(pod) if reason == "BeyondGroupSize"]


async def test_two_gangs_that_begin_with_three_and_one_never_hold_each_other_up(place):
    for group in "xy":
        _create(place, "kubernetes", group)
    node = f"/api/v1/nodes/{ONLY}"
    place.call("PATCH", node, {"metadata": {"labels": {POOL: ONLY}}})
    here = {"nodeSelector": {POOL: ONLY}}

    def both_ended():
        held = [one["metadata"]["name"][0] for one in place.pods() if _holds(one)]
        assert len({*held} - {"f"}) < 2, "half of each"
        return sum(one["status"]["phase"] == "Succeeded" for one in place.pods()) == 2 * SIZE

    try:
        place.pod("full", {**here, "containers": [with_gpus(SIZE)]})
        place.until("it runs", lambda: running(place.pods()))
        for name in ("x0", "x1", "x2", "y0", "y1", "y2", "y3", "x3"):
            own = {"schedulingGroup": {"podGroupName": name[0]}}
            place.pod(name, {**here, **own}, annotations={"muster.dev/duration-seconds": "1"})
        place.until("both have run", both_ended)
    finally:
        place.call("PATCH", node, {"metadata": {"labels": {POOL: None}}})


def _holds(pod):
    return pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")


async def test_a_group_whose_object_is_missing_waits_until_it_is_created(place):
    for name in ("a", "b"):
        place.pod(name, **_coscheduling(0, ""))

    words = "the coscheduling g that tells the size of the group does not"
    place.until("it is told", lambda: _told(place, "a", words))
    _create(place, "coscheduling", spec={"minMember": 2})

    assert place.until("both run", lambda: len(running(place.pods())) == 2)
