"""The size of a group as PodGroups, JobSets and jobs of Kubeflow tell it."""

from typing import Any

import msgspec
import pytest

from shared.adapters.kubernetes.native.group_objects import GROUP_KINDS
from shared.adapters.kubernetes.native.objects import GroupCustomObject
from shared.core.native import GroupObject

BY_PATH = {one.path.split("/")[2] + "/" + one.path.split("/")[4]: one for one in GROUP_KINDS}
DONE = {"conditions": [{"type": "Completed", "status": "True"}]}


def read(kind: str, spec: Any, status: Any = None):
    metadata = {"name": "g", "namespace": "red", "uid": "u1"}
    found = {"metadata": metadata, "spec": spec, "status": status}
    return BY_PATH[kind].read(msgspec.convert(found, GroupCustomObject))


def workers(replicas, **job):
    return {"name": "w", "replicas": replicas, "template": {"spec": job}}


LEADER = {"name": "lead", "replicas": 1}
IN_ORDER = {
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "replicatedJobs": [LEADER, workers(2, parallelism=3, completions=3)],
}
DEPENDING = {"replicatedJobs": [LEADER, {**workers(2, parallelism=3), "dependsOn": [{}]}]}
PARTS = GroupObject(size=7, in_parts=True, parts={"lead": 1, "w": 6})
SIZES = {
    "in order": ("jobset.x-k8s.io/jobsets", IN_ORDER, ("red/jobset/u1", PARTS)),
    "depending": ("jobset.x-k8s.io/jobsets", DEPENDING, ("red/jobset/u1", PARTS)),
    "lws": (
        "leaderworkerset.x-k8s.io/leaderworkersets",
        {"leaderWorkerTemplate": {"size": 4}},
        ("red/lws/g", GroupObject(size=4, over=True)),
    ),
    "leader ready": (
        "leaderworkerset.x-k8s.io/leaderworkersets",
        {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": {"size": 4}},
        ("red/lws/g", GroupObject(in_parts=True, over=True)),
    ),
    "kubernetes": (
        "scheduling.k8s.io/podgroups",
        {"schedulingPolicy": {"gang": {"minCount": 4}}},
        ("red/podgroup/g", GroupObject(size=4, over=True, uid="u1")),
    ),
    "coscheduling": (
        "scheduling.x-k8s.io/podgroups",
        {"minMember": 3, "scheduleTimeoutSeconds": 10},
        ("red/coscheduling/g", GroupObject(size=3, over=True, uid="u1")),
    ),
    "volcano": (
        "scheduling.volcano.sh/podgroups",
        {"minMember": 2, "queue": "default", "minResources": {"cpu": "2"}},
        ("red/volcano/g", GroupObject(size=2, over=True, uid="u1")),
    ),
    "kai": (
        "scheduling.run.ai/podgroups",
        {"minMember": 8, "queue": "team", "subGroups": []},
        ("red/kai/g", GroupObject(size=8, over=True, uid="u1")),
    ),
    "jobset": (
        "jobset.x-k8s.io/jobsets",
        {"replicatedJobs": [workers(2, parallelism=4, completions=2), workers(1), workers(3)]},
        ("red/jobset/u1", GroupObject(size=8)),
    ),
    "pytorch": (
        "kubeflow.org/pytorchjobs",
        {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 3}}},
        ("red/kubeflow/u1", GroupObject(size=4)),
    ),
    "mpi": (
        "kubeflow.org/mpijobs",
        {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 3}}},
        ("red/kubeflow/u1", GroupObject(size=3)),
    ),
    "ray": (
        "ray.io/rayclusters",
        {"workerGroupSpecs": [{"replicas": 2, "numOfHosts": 4}, {"minReplicas": 1}]},
        ("red/ray/u1", GroupObject(size=10)),
    ),
}


@pytest.mark.parametrize(("kind", "spec", "told"), SIZES.values(), ids=SIZES.keys())
def test_an_object_tells_the_size_of_its_group(kind, spec, told):
    assert told == read(kind, spec)


WRONG = {
    "basic": ("scheduling.k8s.io/podgroups", {"schedulingPolicy": {"basic": {}}}, "must be gang"),
    "topology": (
        "scheduling.k8s.io/podgroups",
        {"schedulingConstraints": {"topology": [{"key": "rack"}]}},
        "spec.schedulingConstraints",
    ),
    "tasks": (
        "scheduling.volcano.sh/podgroups",
        {"minMember": 2, "minTaskMember": {"a": 1}},
        "spec.minTaskMember",
    ),
    "subgroups": (
        "scheduling.run.ai/podgroups",
        {"minMember": 2, "subGroups": [{"name": "a"}]},
        "spec.subGroups",
    ),
    "negative": ("scheduling.x-k8s.io/podgroups", {"minMember": -3}, "1 to 4096"),
    "text": ("scheduling.x-k8s.io/podgroups", {"minMember": "many"}, "Expected `int`"),
    "no pods of a part": (
        "jobset.x-k8s.io/jobsets",
        {**IN_ORDER, "replicatedJobs": [workers(1), {**workers(0), "name": "none"}]},
        "1 to 4096",
    ),
    "autoscaling": ("ray.io/rayclusters", {"enableInTreeAutoscaling": True}, "Autoscaling"),
    "no role": ("kubeflow.org/pytorchjobs", {}, "1 to 4096"),
    "nothing": ("kubeflow.org/tfjobs", None, "1 to 4096"),
}


@pytest.mark.parametrize(("kind", "spec", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_honoured_is_named_with_its_object(kind, spec, words):
    _, told = read(kind, spec)

    assert told.refused is not None
    assert f"{BY_PATH[kind].what}/g: spec" in told.refused.field
    assert words in f"{told.refused.field} {told.refused.rule}"


@pytest.mark.parametrize(
    ("status", "over"), [(DONE, True), ({"conditions": ["x"]}, False), ({"conditions": 7}, False)]
)
def test_what_has_ended_makes_no_more_pods(status, over):
    _, told = read("jobset.x-k8s.io/jobsets", {"replicatedJobs": [workers(1)]}, status)

    assert over is told.over


@pytest.mark.parametrize(
    ("kind", "status", "scheduled"),
    [("k8s.io", "True", True), ("k8s.io", "False", False), ("x-k8s.io", "True", None)],
)
def test_what_a_group_was_told_is_read_of_kubernetes_alone(kind, status, scheduled):
    conditions = [{"type": "PodGroupInitiallyScheduled", "status": status}]

    _, told = read(f"scheduling.{kind}/podgroups", {}, {"conditions": conditions})

    assert scheduled is told.scheduled
