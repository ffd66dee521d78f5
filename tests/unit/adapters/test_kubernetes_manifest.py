"""What the API server is given for a pod of Muster, and what is read back of it."""

from typing import Any

import msgspec
import pytest

from shared.adapters.kubernetes.gang_service import service
from shared.adapters.kubernetes.manifest import Making, manifest
from shared.adapters.kubernetes.objects import PodObject, decoder
from shared.adapters.kubernetes.reading import read_pod
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.ports.cluster import Pod, PodTemplate

MAKING = Making(instance="blue", user_id=1234)
SHARES = tuple(GpuShare(index=n, mask=255, milli=1000, memory_mib=81_920) for n in range(2))
POD_SET = PodSet(
    image="registry.example.org/a/b:1",
    command=("python", "-m"),
    arguments=("train",),
    environment={"A": "1"},
    secrets=("wandb",),
    volumes=("datasets", "models:/models:ro", "models:/also"),
    cpu_milli=1500,
    memory_mib=2048,
    shm_mib=512,
    gpu=GpuRequest(count=2),
    tolerations=("maintenance:NoExecute", "pool=red", "spot"),
    kubernetes_priority_class="batch",
)


def a_pod(pod_set=POD_SET, **fields):
    template = PodTemplate(pod_set=pod_set, grace_seconds=120, labels={"run": "7"})
    defaults: dict[str, Any] = {"rank": 1, "size": 2, "epoch": 4, "team": "red", "shares": SHARES}
    return Pod(
        **({
            "name": "w1-3-1", "namespace": "ns", "workload_id": "w1", "attempt": 3,
            "template": template, **defaults,
        } | fields)
    )  # fmt: skip


def container_of(pod):
    return manifest(pod, MAKING)["spec"]["containers"][0]


def spec_of(pod):
    return manifest(pod, MAKING)["spec"]


def read_back(document, **status):
    found = decoder(PodObject).decode(msgspec.json.encode({**document, "status": status}))
    return read_pod(found, MAKING.instance)


def test_requests_equal_limits_and_name_the_gpus_of_the_device_plugin():
    resources = container_of(a_pod())["resources"]

    assert resources["requests"] == resources["limits"]
    assert resources["limits"] == {"cpu": "1500m", "memory": "2048Mi", "nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("gpu", "name"),
    [
        (GpuRequest(mig_profile="1g.10gb+me", mig_count=2), "nvidia.com/mig-1g.10gb.me"),
        (GpuRequest(milli=500, memory_mib=100), "nvidia.com/gpu.shared"),
    ],
)
def test_slices_and_shares_are_resources_of_their_own(gpu, name):
    assert container_of(a_pod(PodSet(gpu=gpu)))["resources"]["limits"] == {name: "2"}


def test_a_pod_without_gpus_sees_none_though_the_runtime_would_show_all():
    variables = container_of(a_pod(PodSet(), shares=(), size=1))["env"]

    assert variables == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def test_command_arguments_environment_and_secrets_are_carried_over():
    container = container_of(a_pod(size=1))

    assert (container["command"], container["args"]) == (["python", "-m"], ["train"])
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "wandb"}}]


def test_claims_are_mounted_where_they_say_and_shared_memory_is_as_large_as_asked_for():
    spec = spec_of(a_pod())

    assert spec["volumes"] == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "datasets"}},
        {"name": "claim-1", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "512Mi"}},
    ]
    assert spec["containers"][0]["volumeMounts"] == [
        {"name": "claim-0", "mountPath": "/mnt/datasets", "readOnly": False},
        {"name": "claim-1", "mountPath": "/models", "readOnly": True},
        {"name": "claim-1", "mountPath": "/also", "readOnly": False},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]


def test_tolerations_and_priority_class_are_those_of_the_pod_set():
    spec = spec_of(a_pod())

    assert spec["priorityClassName"] == "batch"
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"},
        {"key": "pool", "operator": "Equal", "value": "red"},
        {"key": "spot", "operator": "Exists"},
    ]


def test_a_pod_is_restricted_and_restarts_nothing():
    spec = spec_of(a_pod())
    container = spec["containers"][0]

    assert spec["restartPolicy"] == "Never"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 1234
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["terminationGracePeriodSeconds"] == 120


def test_a_token_is_mounted_only_for_a_service_account_that_the_team_names():
    template = PodTemplate(pod_set=POD_SET, service_account="trainer")

    assert spec_of(a_pod())["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec_of(a_pod())
    named = spec_of(a_pod(template=template))
    assert named["automountServiceAccountToken"] is True
    assert named["serviceAccountName"] == "trainer"


def test_pods_of_a_gang_know_rank_size_and_the_name_of_the_first():
    pod = a_pod()
    told = {one["name"]: one["value"] for one in container_of(pod)["env"]}
    found = service(pod, "uid-1", MAKING)

    assert told["RANK"] == "1"
    assert (told["WORLD_SIZE"], told["LOCAL_RANK"]) == ("2", "0")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("w1-3-0.w1-3", "29500")
    assert (spec_of(pod)["hostname"], spec_of(pod)["subdomain"]) == ("w1-3-1", "w1-3")
    assert found["metadata"]["name"] == "w1-3"
    assert found["spec"]["clusterIP"] == "None"
    labels = manifest(pod, MAKING)["metadata"]["labels"]
    assert found["spec"]["selector"].items() <= labels.items()
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-1"


def test_a_pod_alone_has_a_name_for_others_only_if_some_may_join_it():
    alone = a_pod(rank=0, size=1)
    elastic = a_pod(PodSet(count=4, min_count=1), rank=0, size=1)
    names = {one["name"] for one in container_of(elastic)["env"]}

    assert "subdomain" not in spec_of(alone)
    assert spec_of(elastic)["subdomain"] == "w1-3"
    assert {"MASTER_ADDR", "RANK", "WORLD_SIZE"} <= names


def test_a_variable_of_the_work_goes_before_ours():
    pod_set = PodSet(environment={"MASTER_PORT": "1"})
    told = [one for one in container_of(a_pod(pod_set))["env"] if one["name"] == "MASTER_PORT"]

    assert told == [{"name": "MASTER_PORT", "value": "1"}]


def test_labels_of_the_work_are_the_pods_too_but_replace_none_of_ours():
    template = PodTemplate(labels={"run": "7", "muster.dev/workload": "other"})
    labels = manifest(a_pod(template=template), MAKING)["metadata"]["labels"]

    assert (labels["run"], labels["muster.dev/workload"]) == ("7", "w1")


def test_what_a_pod_says_of_itself_is_read_back():
    pod = a_pod(duration_seconds=2.5)
    document = manifest(pod, MAKING)
    document["metadata"] |= {"uid": "u", "resourceVersion": "17"}

    found = read_back(document)

    for field in ("name", "namespace", "workload_id", "attempt", "rank", "size", "epoch", "team",
                  "shares", "duration_seconds"):  # fmt: skip
        assert getattr(found, field) == getattr(pod, field), field
    assert (found.uid, found.resource_version) == ("u", 17)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app.kubernetes.io/managed-by": "muster"},
        {"app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "green"},
        {"app.kubernetes.io/managed-by": "other", "muster.dev/instance": "blue"},
    ],
)
def test_a_pod_without_our_labels_is_of_no_workload_whatever_else_it_says(labels):
    document = manifest(a_pod(), MAKING)
    document["metadata"]["labels"] = {"muster.dev/workload": "w1", **labels}

    found = read_back(document)

    assert (found.workload_id, found.size) == ("", 0)


def test_labels_that_somebody_changed_break_nothing():
    document = manifest(a_pod(), MAKING)
    document["metadata"]["labels"]["muster.dev/rank"] = "-x"
    document["metadata"]["annotations"] = {
        "muster.dev/shares": "{", "muster.dev/size": "²", "muster.dev/duration-seconds": "soon",
    }  # fmt: skip

    found = read_back(document)

    assert (found.rank, found.size, found.shares, found.duration_seconds) == (-1, -1, (), None)


def state(**what):
    return {"containerStatuses": [{"state": what}]}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "Evicted",
         "low on memory"),
        ({"phase": "Failed", **state(terminated={"reason": "OOMKilled", "exitCode": 137})},
         "OOMKilled", "exit code 137"),
        ({"phase": "Failed", **state(terminated={"exitCode": 7, "message": "lost the data"})},
         "Error", "lost the data"),
        ({"phase": "Failed", "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"},
        ], **state(terminated={"reason": "Error", "exitCode": 137})},
         "DeletionByTaintManager", ""),
        ({"phase": "Succeeded", **state(terminated={"reason": "Completed", "exitCode": 0})},
         "", ""),
    ],
)  # fmt: skip
def test_why_a_pod_ended_is_read_from_where_it_stands(status, reason, message):
    found = read_back(manifest(a_pod(), MAKING), **status)

    assert (found.reason, found.message) == (reason, message)


def test_a_pull_is_told_apart_from_what_keeps_a_container_waiting():
    document = manifest(a_pod(), MAKING)

    pulling = read_back(document, **state(waiting={"reason": "ContainerCreating"}))
    stuck = read_back(
        document, **state(waiting={"reason": "ErrImagePull", "message": "no such image"})
    )

    assert (pulling.pulling, pulling.waiting) == (True, "")
    assert (stuck.pulling, stuck.waiting, stuck.message) == (
        False, "ErrImagePull", "no such image",
    )  # fmt: skip


def test_devices_are_those_that_the_kubelet_tells_else_those_that_were_chosen():
    document = manifest(a_pod(), MAKING)
    document["metadata"]["annotations"]["muster.dev/devices"] = "GPU-1,GPU-2"
    told = {"allocatedResourcesStatus": [{"resources": [{"resourceID": "GPU-9"}]}]}

    assert read_back(document).devices == ("GPU-1", "GPU-2")
    assert read_back(document, containerStatuses=[told]).devices == ("GPU-9",)


def test_what_a_kubelet_chose_of_gpus_is_told_apart_from_claims_and_other_devices():
    document = manifest(a_pod(), MAKING)
    told = [
        {
            "name": "nvidia.com/gpu",
            "resources": [{"resourceID": "GPU-1"}, {"resourceID": "GPU-2"}],
        },
        {"name": "claim:a/b", "resources": [{"resourceID": "gpu.nvidia.com/n/gpu-3"}]},
        {"name": "rdma/hca", "resources": [{"resourceID": "mlx5_0"}]},
    ]

    pod = read_back(document, containerStatuses=[{"allocatedResourcesStatus": told}])

    assert ("GPU-1", "GPU-2") == pod.allocated
    assert () == read_back(document).allocated
