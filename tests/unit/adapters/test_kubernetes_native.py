"""Native pods as the API server shows them, and the patches that adopt and release them."""

from typing import Any

import msgspec

from shared.adapters.kubernetes.manifest import Making
from shared.adapters.kubernetes.native.adopting import adoption, disruption, release
from shared.adapters.kubernetes.native.objects import JobObject, NativePodObject
from shared.adapters.kubernetes.native.reading import read_job, read_native_pod
from shared.core.model.decision import FieldError
from shared.core.model.nouns import GpuShare
from shared.core.native import GroupObject
from shared.ports.cluster import Pod

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "red",
        "uid": "u",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"muster.dev/group-size": "2", "large": "x" * 10_000},
        "ownerReferences": [
            {"kind": "Job", "name": "j", "uid": "j1", "controller": True},
            {"kind": "Other", "name": "o", "uid": "o1"},
        ],
    },
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "a/b:1",
                "ports": [{"hostPort": 80}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"}},
            }
        ],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}],
        "tolerations": [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            {"key": "c", "operator": "Exists"},
            {"operator": "Exists"},
        ],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}},
        "resourceClaims": [{"name": "x"}],
        "schedulingGates": [{"name": "g"}],
        "terminationGracePeriodSeconds": 7,
    },
}


def read(pod):
    return read_native_pod(msgspec.convert(pod, NativePodObject))


def changed(**metadata):
    return {**POD, "metadata": {**POD["metadata"], **metadata}}


def test_a_pod_is_read_with_what_counts_and_no_more():
    pod = read(POD)

    assert {"muster.dev/group-size": "2"} == pod.annotations
    assert ("Job", "j", "j1") == (pod.owner_kind, pod.owner_name, pod.owner_uid)
    assert (2_000, 1 << 30, 2) == (pod.taken.cpu_milli, pod.taken.memory_bytes, pod.taken.gpus)
    assert ("a=b:NoSchedule", "c") == pod.tolerations
    assert (("g",), 7) == (pod.gates, pod.grace_seconds)
    assert {
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "spec.resourceClaims",
        "spec.containers[a].ports[].hostPort",
    } == set(pod.not_honoured)


def test_a_pod_that_a_muster_made_is_no_native_one_and_an_adopted_one_is():
    made = {"app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "other"}

    assert None is read(changed(labels=made))
    assert read(changed(labels={**made, "muster.dev/adopted": "true"})).claimed


def test_an_amount_that_is_none_is_the_problem_of_its_pod():
    container = {"name": "a", "resources": {"requests": {"cpu": "much"}}}
    pod = read({**POD, "spec": {"containers": [container]}})

    assert "'much' is no quantity" in pod.problem


def test_a_job_is_read_if_it_is_indexed():
    def of(**spec):
        over = {"conditions": [{"type": "Complete", "status": "True"}]}
        return read_job(msgspec.convert({"spec": spec, "status": over}, JobObject))

    assert None is of(parallelism=4)
    assert GroupObject(size=4, over=True) == of(
        completionMode="Indexed", parallelism=4, completions=4
    )
    assert GroupObject(size=1, over=True) == of(completionMode="Indexed"), "one pod is a group"
    one_of_four = of(completionMode="Indexed", parallelism=4)
    assert one_of_four.over
    assert ("spec.parallelism", "4") == (one_of_four.refused.field, one_of_four.refused.value)
    assert "must equal completions (1)" in one_of_four.refused.rule


def test_an_indexed_job_that_does_not_run_all_at_once_is_no_gang():
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 8}

    found = read_job(msgspec.convert({"spec": spec}, JobObject))

    assert found is not None
    assert isinstance(found.refused, FieldError)
    assert ("spec.parallelism", "2") == (found.refused.field, found.refused.value)


def test_labels_of_the_owner_stay_as_they_are():
    share = GpuShare(index=1, mask=255, milli=1000, memory_mib=8)
    pod = Pod(
        name="x", workload_id="w", attempt=2, rank=1, size=3, epoch=4, team="red",
        shares=(share,), group="red/job/j1",
    )  # fmt: skip

    found = adoption(pod, "u", Making(instance="blue"), by_claim=True)["metadata"]

    assert "u" == found["uid"]
    assert "app.kubernetes.io/managed-by" not in found["labels"]
    assert ("blue", "w", "2", "1", "true") == tuple(
        found["labels"][f"muster.dev/{one}"]
        for one in ("instance", "workload", "attempt", "rank", "adopted")
    )
    assert ("red/job/j1", "true", "3") == tuple(
        found["annotations"][f"muster.dev/{one}"] for one in ("pod-group", "by-claim", "size")
    )


def test_a_released_pod_is_of_no_muster():
    gone = {"muster.dev/instance": None, "muster.dev/adopted": None}

    assert {"metadata": {"uid": "u", "labels": gone}} == release("u")


def test_a_disruption_is_of_now():
    (condition,) = disruption("u", "why", 1_700_000_000_000)["status"]["conditions"]

    assert ("DisruptionTarget", "PreemptionByScheduler", "2023-11-14T22:13:20Z") == (
        condition["type"], condition["reason"], condition["lastTransitionTime"],
    )  # fmt: skip
