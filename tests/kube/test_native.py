"""Pods and Jobs of the cluster under a whole Muster, with the real controller manager."""

import os
import time

import pytest

from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

pytestmark = pytest.mark.timeout(400)
INSTANCE = SCHEDULER = f"native-{os.getpid()}"
SECONDS = 60
NODES = 64
POD = {
    "terminationGracePeriodSeconds": 1,
    "containers": [
        {
            "name": "train",
            "image": "registry.example.org/a/b:1",
            "resources": {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"},
            },
        }
    ],
}


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
    return Place(kube, kube_namespace)


class Place:
    """A namespace, by an administrator."""

    def __init__(self, kube, namespace):
        self._kube, self._namespace = kube, namespace

    def call(self, method, path, body=None):
        with self._kube.client() as admin:
            return admin.demand(method, path.format(self._namespace), body)

    def pod(self, name, spec=None, **metadata):
        body = {"metadata": {"name": name, **metadata}, "spec": _spec(spec)}
        self.call("POST", "/api/v1/namespaces/{}/pods", body)

    def job(self, name, spec, *, annotations=None, pod=None):
        template = {"metadata": {"annotations": annotations or {}}, "spec": _spec(pod)}
        template["spec"]["restartPolicy"] = "Never"
        body = {"metadata": {"name": name}, "spec": {**spec, "template": template}}
        self.call("POST", "/apis/batch/v1/namespaces/{}/jobs", body)

    def pods(self):
        return self.call("GET", "/api/v1/namespaces/{}/pods")["items"]

    def events(self, name):
        found = self.call("GET", "/apis/events.k8s.io/v1/namespaces/{}/events")["items"]
        return [(one["reason"], one["note"]) for one in found if one["regarding"]["name"] == name]

    def until(self, what, condition):
        deadline = time.monotonic() + SECONDS
        while not (found := condition()):
            assert time.monotonic() < deadline, (what, [_told(one) for one in self.pods()])
            time.sleep(0.2)
        return found


def _spec(changes):
    return {"schedulerName": SCHEDULER, **POD, **(changes or {})}


def _told(pod):
    return pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"]


def running(pods):
    return [one for one in pods if one["status"].get("phase") == "Running"]


def bound(pods):
    return [one for one in pods if one["spec"].get("nodeName")]


async def test_a_bare_pod_runs_where_the_ledger_says(stage, place):
    place.pod("alone", annotations={"muster.dev/duration-seconds": "2"})

    (pod,) = place.until("it runs", lambda: running(place.pods()))
    work = pod["metadata"]["labels"]["muster.dev/workload"]
    (row,) = await stage.rows.fetch(
        "SELECT node FROM placement.allocation WHERE workload_id = $1", work
    )
    await stage.reaches(work, "succeeded", 60)

    assert row["node"] == pod["spec"]["nodeName"]
    (left,) = place.pods()
    assert "Succeeded" == left["status"]["phase"], "its pod is its owner's, and stays"


async def test_an_indexed_job_runs_whole_in_the_order_of_its_ranks(stage, place):
    spec = {"completionMode": "Indexed", "parallelism": 16, "completions": 16}
    place.job("gang", spec, annotations={"muster.dev/duration-seconds": "3"})

    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 16 and r)
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
