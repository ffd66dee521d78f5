"""The test cluster behaves as a cluster does; its identities may what they need."""

import time

import pytest

from deploy.kube.nodes import node_name
from deploy.local.processes import wait_until
from tests.kube.kube_world import simulator_has_heard

SECONDS = 30
DEVICE_PLUGIN_NODE = node_name(0)


@pytest.fixture
def admin(kube):
    with kube.client() as client:
        yield client


@pytest.fixture
def pods(admin, kube_namespace):
    return Pods(admin, kube_namespace)


class Pods:
    def __init__(self, client, namespace):
        self._client = client
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def bound(self, node=DEVICE_PLUGIN_NODE, name="p", finalizers=(), **annotations):
        body = {
            "metadata": {
                "name": name,
                "finalizers": list(finalizers),
                "annotations": {key.replace("__", "/"): text for key, text in annotations.items()},
            },
            "spec": {
                "schedulerName": "muster",
                "containers": [{"name": "main", "image": "a/b:1"}],
                "tolerations": [{"operator": "Exists"}],
            },
        }
        self._client.demand("POST", self.path, body)
        target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": name}}
        self._client.demand("POST", f"{self.path}/{name}/binding", target)
        return name

    def get(self, name="p"):
        status, pod = self._client.request("GET", f"{self.path}/{name}")
        return pod if status == 200 else None

    def delete(self, name="p", grace=1):
        body = {"gracePeriodSeconds": grace}
        self._client.demand("DELETE", f"{self.path}/{name}", body)

    def let_go(self, name="p"):
        self._client.demand("PATCH", f"{self.path}/{name}", {"metadata": {"finalizers": None}})

    def wait(self, check, what):
        wait_until(lambda: check(self.get()), seconds=SECONDS, what=what)
        return self.get()

    def wait_for(self, phase):
        return self.wait(lambda pod: pod["status"]["phase"] == phase, f"the pod to be {phase}")


def annotated(name, value):
    return {f"kwok.muster.dev__{name}": value}


def state_of(pod):
    return pod["status"]["containerStatuses"][0]["state"]


def ready_of(admin, name):
    node = admin.demand("GET", f"/api/v1/nodes/{name}")
    return next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready")


def test_there_are_64_nodes_and_the_gpus_of_each_are_told_in_one_way(admin):
    nodes = admin.demand("GET", "/api/v1/nodes")["items"]
    slices = admin.demand("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]

    counted = {node["metadata"]["name"] for node in nodes if _count(node)}
    sliced = {one["spec"]["nodeName"] for one in slices}

    assert (len(nodes), len(counted), len(sliced)) == (64, 22, 42)
    assert counted.isdisjoint(sliced)


def _count(node):
    return int(node["status"]["allocatable"].get("nvidia.com/gpu", "0"))


def test_a_bound_pod_runs_and_is_ready_without_end(pods):
    pods.bound()

    pod = pods.wait_for("Running")

    assert "running" in state_of(pod)
    assert {one["type"] for one in pod["status"]["conditions"] if one["status"] == "True"} >= {
        "Ready", "PodScheduled",
    }  # fmt: skip


def test_a_pod_ends_after_its_seconds(pods):
    started = time.monotonic()
    pods.bound(**{"muster.dev__duration-seconds": "2"})

    pod = pods.wait_for("Succeeded")

    assert time.monotonic() - started >= 2
    assert state_of(pod)["terminated"]["exitCode"] == 0


def test_a_pod_fails_with_the_reason_of_its_container(pods):
    pods.bound(**annotated("failed", "OOMKilled"))

    pod = pods.wait_for("Failed")

    ended = state_of(pod)["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert "reason" not in pod["status"]


def test_a_kubelet_refuses_a_pod(pods):
    pods.bound(**annotated("refused", "UnexpectedAdmissionError"))

    pod = pods.wait_for("Failed")

    assert pod["status"]["reason"] == "UnexpectedAdmissionError"


def test_a_pod_waits_for_its_image(pods):
    pods.bound(**annotated("waiting", "ImagePullBackOff"))

    pod = pods.wait(lambda pod: "containerStatuses" in pod["status"], "the pod to wait")

    assert pod["status"]["phase"] == "Pending"
    assert state_of(pod)["waiting"]["reason"] == "ImagePullBackOff"


def test_a_deleted_pod_is_gone_and_a_slow_one_is_terminating_first(pods):
    pods.bound()
    pods.wait_for("Running")
    pods.delete()
    pods.wait(lambda pod: pod is None, "the pod to be gone")

    pods.bound(**annotated("slow-stop", "3"))
    pods.wait_for("Running")
    pods.delete()

    stopping = pods.get()
    assert "deletionTimestamp" in stopping["metadata"]
    assert stopping["status"]["phase"] == "Running"
    pods.wait(lambda pod: pod is None, "the pod to be gone")


def test_a_pod_that_a_finalizer_keeps_has_failed_when_it_is_stopped(pods):
    pods.bound(finalizers=["example.org/kept"])
    pods.wait_for("Running")
    pods.delete()

    pod = pods.wait_for("Failed")

    assert "deletionTimestamp" in pod["metadata"]
    pods.let_go()
    pods.wait(lambda pod: pod is None, "the pod to be gone")


def test_a_node_is_not_ready_while_it_is_told_to_be(admin):
    path = f"/api/v1/nodes/{node_name(63)}"
    mark = {"metadata": {"annotations": {"kwok.muster.dev/not-ready": "true"}}}
    admin.demand("PATCH", path, mark)
    wait_until(lambda: ready_of(admin, node_name(63)) == "False", seconds=SECONDS, what="NotReady")

    unmark = {"metadata": {"annotations": {"kwok.muster.dev/not-ready": None}}}
    admin.demand("PATCH", path, unmark)

    wait_until(lambda: ready_of(admin, node_name(63)) == "True", seconds=SECONDS, what="Ready")


def test_nothing_happens_to_the_pods_of_a_dead_node(kube, admin, pods):
    dead = node_name(60)
    admin.demand(
        "PATCH", f"/api/v1/nodes/{dead}", {"metadata": {"labels": {"kwok.muster.dev/node": None}}}
    )
    simulator_has_heard(kube)
    pods.bound(node=dead, name="q")
    pods.bound()
    pods.wait_for("Running")

    assert pods.get("q")["status"]["phase"] == "Pending"
    pods.delete("q")
    time.sleep(1)
    assert "deletionTimestamp" in pods.get("q")["metadata"]

    back = {"metadata": {"labels": {"kwok.muster.dev/node": "simulated"}}}
    admin.demand("PATCH", f"/api/v1/nodes/{dead}", back)
    wait_until(lambda: pods.get("q") is None, seconds=SECONDS, what="the pod to be gone")


@pytest.mark.parametrize(
    ("identity", "method", "path", "allowed"),
    [
        ("binder", "GET", "/api/v1/pods?limit=1", True),
        ("binder", "GET", "/api/v1/secrets", False),
        ("binder", "GET", "/api/v1/nodes?limit=1", True),
        ("binder", "DELETE", "/api/v1/nodes/none", False),
        ("checker", "GET", "/api/v1/nodes?limit=1", True),
        ("watcher", "GET", "/apis/resource.k8s.io/v1/resourceslices?limit=1", True),
        ("watcher", "GET", "/api/v1/namespaces/default/pods?limit=1", True),
        ("watcher", "GET", "/api/v1/secrets", False),
        ("watcher", "DELETE", "/api/v1/nodes/none", False),
        ("checker", "DELETE", "/api/v1/namespaces/default/pods/none", False),
    ],
)
def test_an_identity_may_what_it_needs_and_no_more(kube, identity, method, path, allowed):
    with kube.client(identity) as client:
        status, _ = client.request(method, path)

    assert status == (200 if allowed else 403)
