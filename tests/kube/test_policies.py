"""What the policies of `deploy/kube/policies` refuse, in which words, and what passes.

Each rule has a pod that a real API server refuses; the real controllers of Deployments and Jobs,
Muster's binder and a whole Muster work under all of them.
"""

import asyncio
import copy
import json
import time

import pytest

from tests.kube.policed import (
    EXEMPT,
    FREE,
    GPUS_ONLY,
    MADE,
    MANAGED,
    NAMESPACES,
    OLD,
    SAFE,
    SCHEDULED,
    claim,
    made_by_binder,
    pod,
    policed,
    policy_documents,
)
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

pytestmark = pytest.mark.timeout(300)
SECONDS = 60
PARAMETERS = "/api/v1/namespaces/muster-system/configmaps/muster-policies"
DIGEST = "registry.example.org/a/b@sha256:" + "0" * 64


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with policed(tmp_path_factory.mktemp("policed") / "kube") as kube:
        yield kube


@pytest.fixture
def admin(cluster):
    with cluster.client() as client:
        yield client


@pytest.fixture
def parameters(admin):
    """Sets some for a test and waits until they are in force: until a pod is refused."""
    before = admin.demand("GET", PARAMETERS)["data"]

    def change(refused, **data):
        patch = {key.replace("_", "-"): value for key, value in data.items()}
        admin.demand("PATCH", PARAMETERS, {"data": patch})
        until("the parameter is in force", lambda: create(admin, MANAGED, refused)[0] == 422)

    yield change
    admin.demand("PATCH", PARAMETERS, {"data": before})
    until("parameters are as before", lambda: create(admin, MANAGED, pod("a"))[0] == 201)


def until(what, condition):
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


def create(client, namespace, body, *, dry=True):
    """The status and, of a refusal, its words; else the pod."""
    path = f"/api/v1/namespaces/{namespace}/pods" + ("?dryRun=All" if dry else "")
    status, answer = client.request("POST", path, body)
    return status, answer if status == 201 else answer["message"]


def make_runtime_class(client):
    runtime = {"metadata": {"name": "other"}, "handler": "other"}
    client.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)


def with_env(name, value="all", **others):
    return pod("a", container={"env": [{"name": name, "value": value}]}, **others)


def init(**fields):
    return {"initContainers": [{"name": "i", "image": "a/b:1", "securityContext": SAFE, **fields}]}


def unsafe(**changes):
    return pod("a", container={"securityContext": {**SAFE, **changes}})


def labelled(**labels):
    return pod("a", metadata={"labels": {k.replace("__", "/"): v for k, v in labels.items()}})


SET_BY_SCHEDULER = ": is set by the scheduler alone; remove it"
PREFIX = {"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "x"}}]}
VISIBLE = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]
REFUSED = {
    "S6 team": (labelled(**{"muster.dev__team": "x"}), "muster.dev/team: keys of muster.dev"),
    "S6 epoch": (
        pod("a", metadata={"annotations": {"muster.dev/epoch": "9"}}),
        "metadata: muster.dev/epoch: keys of muster.dev are written by Muster alone",
    ),
    "S8 root": (unsafe(runAsUser=0), 'violates PodSecurity "restricted:latest": runAsUser=0'),
    "S8 privileged": (unsafe(privileged=True, allowPrivilegeEscalation=True), "privileged"),
    "S8 capabilities": (unsafe(capabilities={}), "unrestricted capabilities"),
    "S8 seccomp": (unsafe(seccompProfile={"type": "Unconfined"}), "seccompProfile"),
    "S8 host path": (
        pod("a", volumes=[{"name": "v", "hostPath": {"path": "/dev"}}]),
        'volume "v" uses restricted volume type "hostPath"',
    ),
    "S8 host network": (pod("a", hostNetwork=True), "host namespaces (hostNetwork=true)"),
    "S9 node": (
        pod("a", nodeName="gpu-0000"),
        "spec.nodeName: gpu-0000: a place is chosen by the scheduler; leave it out",
    ),
    "S9 runtime class": (
        pod("a", runtimeClassName="other"), "spec.runtimeClassName: other: must be one of: nvidia",
    ),
    "S9 priority": (
        pod("a", priorityClassName="system-node-critical"),
        "spec.priorityClassName: system-node-critical: a kubelet evicts others for it",
    ),
    "S9 toleration": (
        pod("a", tolerations=[{"key": "muster.dev/out-of-service", "operator": "Exists"}]),
        "spec.tolerations: muster.dev/out-of-service: taints of muster.dev keep work from broken",
    ),
    "S10 devices": (
        with_env("NVIDIA_VISIBLE_DEVICES"),
        f"spec.containers[main].env: NVIDIA_VISIBLE_DEVICES{SET_BY_SCHEDULER}",
    ),
    "S10 with a GPU": (with_env("NVIDIA_VISIBLE_DEVICES", gpus=1), "NVIDIA_VISIBLE_DEVICES: is"),
    "S10 cuda": (with_env("CUDA_VISIBLE_DEVICES", "0"), "CUDA_VISIBLE_DEVICES: is set by"),
    "S10 void of another": (with_env("CUDA_VISIBLE_DEVICES", "void"), "CUDA_VISIBLE_DEVICES: is"),
    "S10 rocm": (with_env("ROCR_VISIBLE_DEVICES", "0"), "ROCR_VISIBLE_DEVICES: is set by"),
    "S10 requirements": (with_env("NVIDIA_DISABLE_REQUIRE", "1"), "NVIDIA_DISABLE_REQUIRE: is"),
    "S10 preload": (with_env("LD_PRELOAD", "/x.so"), "LD_PRELOAD: is set by the scheduler alone"),
    "S10 init": (pod("a", **init(env=VISIBLE)), "spec.containers[i].env: CUDA_VISIBLE_DEVICES"),
    "S10 prefix": (pod("a", container=PREFIX), "spec.containers[main].envFrom[].prefix: could"),
    "S12 past Muster": (
        pod("a", gpus=1, scheduler="default-scheduler"),
        "spec.schedulerName: default-scheduler: container main asks for GPUs, which are given by",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_a_pod_that_breaks_a_rule_is_refused_with_field_and_remedy(admin, rule):
    body, words = REFUSED[rule]
    if body["spec"].get("runtimeClassName"):
        make_runtime_class(admin)

    status, told = create(admin, MANAGED, body)

    assert status in (403, 422)
    assert words in told


PASSES = {
    "whole GPUs": pod("a", gpus=8),
    "void": with_env("NVIDIA_VISIBLE_DEVICES", "void"),
    "own variables": with_env("NCCL_DEBUG", "INFO"),
    "variables of a ConfigMap": pod(
        "a", container={"envFrom": [{"configMapRef": {"name": "x"}}]}
    ),
    "open keys": labelled(**{"muster.dev__group": "g", "muster.dev__queue": "q"}),
    "keys of others": labelled(**{"example.org__team": "x"}),
    "without a GPU by another": pod("a", scheduler="default-scheduler"),
    "an init container": pod("a", **init()),
}  # fmt: skip


@pytest.mark.parametrize("what", PASSES)
def test_what_breaks_no_rule_passes(admin, what):
    status, told = create(admin, MANAGED, PASSES[what])

    assert 201 == status, told


def test_a_listed_runtime_class_passes(admin):
    nvidia = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    admin.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", nvidia)

    status, told = until(
        "the class is known",
        lambda: (r := create(admin, MANAGED, pod("a", runtimeClassName="nvidia")))[0] != 403 and r,
    )

    assert 201 == status, told


def test_images_are_of_the_registries_and_by_digest_where_that_is_asked(admin, parameters):
    fine = pod("a", container={"image": DIGEST})
    elsewhere = pod("a", container={"image": "docker.io/a/b:1"})

    parameters(elsewhere, images="registry.example.org/ ghcr.io/team/", digests_required="true")
    foreign, tagged = (create(admin, MANAGED, body)[1] for body in (elsewhere, pod("a")))

    words = (
        "spec.containers[].image: docker.io/a/b:1: must begin with one of: registry.example.org/"
    )
    assert words in foreign
    assert "registry.example.org/a/b:1: must be named by digest, @sha256:..." in tagged
    assert 201 == create(admin, MANAGED, fine)[0]


def test_who_has_no_gpu_says_void_where_that_is_asked_and_is_given_it(admin, parameters):
    for name in ("muster-void", "muster-schedule"):
        bindings = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
        admin.demand("DELETE", f"{bindings}/{name}")
    try:
        parameters(pod("a"), void_required="true")
        _, told = create(admin, MANAGED, pod("a"))
        with_gpu = create(admin, MANAGED, pod("a", gpus=1))[0]
    finally:
        admin.create_all(policy_documents())
    status, made = until(
        "it is given", lambda: (r := create(admin, MANAGED, pod("a")))[0] == 201 and r
    )

    assert "a container without a GPU must say NVIDIA_VISIBLE_DEVICES=void" in told
    assert 201 == with_gpu == status
    (given,) = made["spec"]["containers"][0]["env"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} == given


@pytest.mark.parametrize(("kind", "field"), [("configmaps", "data"), ("secrets", "stringData")])
def test_what_becomes_variables_has_no_reserved_name(admin, kind, field):
    path = f"/api/v1/namespaces/{MANAGED}/{kind}"
    body = {"metadata": {"name": f"own-{kind}"}, field: {"NCCL_DEBUG": "INFO"}}
    admin.demand("POST", path, body)

    status, answer = admin.request(
        "PATCH", f"{path}/own-{kind}", {field: {"NVIDIA_VISIBLE_DEVICES": "all"}}
    )

    assert 422 == status
    assert "data: NVIDIA_VISIBLE_DEVICES: becomes a variable by envFrom" in answer["message"]


def test_a_debugger_that_comes_later_sees_no_gpu_either(admin):
    create(admin, MANAGED, pod("debugged"), dry=False)
    path = f"/api/v1/namespaces/{MANAGED}/pods/debugged"
    found = admin.demand("GET", path)

    def debug(**fields):
        one = {"name": "debug", "image": "a/b:1", "securityContext": SAFE, **fields}
        body = {**found, "spec": {**found["spec"], "ephemeralContainers": [one]}}
        status, answer = admin.request("PUT", f"{path}/ephemeralcontainers?dryRun=All", body)
        return status, answer.get("message", "")

    status, told = debug(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])
    assert (422, True) == (status, "spec.containers[debug].env: NVIDIA_VISIBLE_DEVICES" in told)
    assert 200 == debug()[0]


def test_claims_of_gpus_are_made_by_muster_alone(admin, cluster):
    path = f"/apis/resource.k8s.io/v1/namespaces/{MANAGED}/"
    template = claim("mig.nvidia.com", "ResourceClaimTemplate")
    first = {"requests": [{"name": "a", "firstAvailable": [
        {"name": "b", "deviceClassName": "gpu.nvidia.com"}]}]}  # fmt: skip
    either = {**claim("x"), "spec": {"devices": first}}

    def made(client, kind, body):
        return client.request("POST", f"{path}{kind}?dryRun=All", body)[0]

    assert 422 == made(admin, "resourceclaims", claim("gpu.nvidia.com"))
    assert 422 == made(admin, "resourceclaims", either)
    assert 422 == made(admin, "resourceclaimtemplates", template)
    assert 201 == made(admin, "resourceclaims", claim("network.example.org"))
    with cluster.client("binder") as binder:
        assert 201 == made(binder, "resourceclaims", claim("gpu.nvidia.com"))


def test_the_rest_of_the_cluster_is_held_to_gpus_and_keys_alone(admin):
    plain = {"containers": [{"name": "c", "image": "a/b:1"}], "hostNetwork": True}
    past = pod("a", gpus=1, scheduler="default-scheduler")

    assert 201 == create(admin, FREE, {"metadata": {"name": "a"}, "spec": plain})[0]
    assert 422 == create(admin, FREE, past)[0]
    assert 422 == create(admin, FREE, labelled(**{"muster.dev__workload": "x"}))[0]
    assert 201 == create(admin, EXEMPT, past)[0]
    assert 422 == create(admin, EXEMPT, labelled(**{"muster.dev__workload": "x"}))[0]


def test_keys_of_muster_are_neither_changed_nor_taken_away(admin, cluster):
    path = f"/api/v1/namespaces/{MANAGED}/pods/marked"
    create(admin, MANAGED, pod("marked"), dry=False)
    with cluster.client("binder") as binder:
        binder.demand("PATCH", path, {"metadata": {"labels": {"muster.dev/rank": "0"}}})

    changes = (
        {"labels": {"muster.dev/rank": "1"}},
        {"labels": {"muster.dev/rank": None}},
        {"annotations": {"muster.dev/devices": "GPU-0"}},
    )
    told = [admin.request("PATCH", path, {"metadata": one})[0] for one in changes]
    finalizer = {"finalizers": ["example.org/x"], "labels": {"app": "x"}}

    assert [422, 422, 422] == told
    assert 200 == admin.request("PATCH", path, {"metadata": finalizer})[0]
    admin.demand("PATCH", path, {"metadata": {"finalizers": None}})


def test_a_managed_namespace_is_restricted_and_stays_so(admin):
    path = "/api/v1/namespaces"
    key = "pod-security.kubernetes.io/enforce"
    created, answer = admin.request(
        "POST", path, {"metadata": {"name": "x", "labels": {"muster.dev/managed": "true"}}}
    )
    loosened = [
        admin.request("PATCH", f"{path}/{MANAGED}", {"metadata": {"labels": {key: value}}})[0]
        for value in ("baseline", None)
    ]

    assert 422 == created
    assert f"metadata.labels[{key}] of namespace x: must be restricted" in answer["message"]
    assert [422, 422] == loosened
    assert (
        NAMESPACES[MANAGED].items()
        <= admin.demand("GET", f"{path}/{MANAGED}")["metadata"]["labels"].items()
    )


def test_nothing_runs_in_a_managed_namespace_that_was_never_restricted(admin):
    status, told = create(admin, OLD, pod("a"))

    assert 422 == status
    assert f"namespace {OLD}: pod-security.kubernetes.io/enforce must be restricted" in told


def bind(client, name, node="gpu-0000"):
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/{MANAGED}/pods/{name}/binding"
    return client.request("POST", path, body)


def test_the_binder_alone_binds_and_its_own_pods_pass(admin, cluster):
    create(admin, MANAGED, pod("waits"), dry=False)

    status, answer = bind(admin, "waits")
    with cluster.client("binder") as binder:
        ours = pod("ours", gpus=1, metadata={"labels": {"muster.dev/workload": "w"}})
        created = create(binder, MANAGED, ours, dry=False)[0]
        bound = bind(binder, "waits")[0], bind(binder, "ours")[0]

    assert 422 == status
    assert "admin may not bind pods here; these may: system:serviceaccount" in answer["message"]
    assert (201, 201, 201) == (created, *bound)


LOOSENED = {
    "hostNetwork": True,
    "hostPID": True,
    "nodeName": "gpu-0000",
    "runtimeClassName": "other",
    "securityContext": {"runAsUser": 0},
    "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
}


@pytest.mark.parametrize("what", MADE)
def test_what_is_made_of_a_submission_passes_and_has_no_field_of_a_node(cluster, what):
    with cluster.client("binder") as binder:
        status, made = create(binder, MANAGED, made_by_binder(MADE[what]))

    assert 201 == status, made
    assert not made["spec"].keys() & (LOOSENED.keys() - {"securityContext", "volumes"})
    assert not [one for one in made["spec"].get("volumes", ()) if "hostPath" in one]


@pytest.mark.parametrize("field", LOOSENED)
def test_even_the_binder_makes_no_pod_that_reaches_its_node(cluster, admin, field):
    make_runtime_class(admin)
    with cluster.client("binder") as binder:
        body = made_by_binder(MADE["no GPU"], **{field: LOOSENED[field]})
        status, told = create(binder, MANAGED, body)

    assert status in (403, 422), told


def test_a_pod_gets_what_it_need_not_say(admin):
    theirs = pod("a", gpus=1, scheduler="")
    _, made = create(admin, SCHEDULED, theirs)
    spec, container = made["spec"], made["spec"]["containers"][0]
    told = copy.deepcopy(theirs)
    told["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/dev/shm"}]
    told["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    told["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    told["spec"]["schedulerName"] = "another"

    status, words = create(admin, SCHEDULED, told)
    told["spec"]["schedulerName"] = "muster"
    _, kept = create(admin, SCHEDULED, told)

    assert "muster" == spec["schedulerName"]
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in spec["tolerations"]
    assert {"medium": "Memory", "sizeLimit": "16Gi"} in [
        v.get("emptyDir") for v in spec["volumes"]
    ]
    assert "/dev/shm" in [one["mountPath"] for one in container["volumeMounts"]]
    assert "env" not in container
    assert (422, True) == (status, "spec.schedulerName: another" in words)
    assert "muster-shm" not in json.dumps(kept)
    assert 1 == [one.get("key") for one in kept["spec"]["tolerations"]].count("nvidia.com/gpu")


def test_only_who_asks_for_gpus_is_given_muster_where_that_is_said(admin):
    schedulers = [
        create(admin, GPUS_ONLY, pod("a", gpus=gpus, scheduler=""))[1]["spec"]["schedulerName"]
        for gpus in (0, 1)
    ]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    of_daemons = pod("a", scheduler="", metadata={"ownerReferences": [owner]})

    assert ["default-scheduler", "muster"] == schedulers
    _, made = create(admin, SCHEDULED, of_daemons)
    assert "default-scheduler" == made["spec"]["schedulerName"]


def test_jobs_and_deployments_run_under_muster_that_never_name_it(cluster, admin, tmp_path):
    system = launch_on(cluster.folder, tmp_path / "system")
    try:
        asyncio.run(_organise(system))
        template = {
            "metadata": {"labels": {"app": "d"}},
            "spec": pod("x", gpus=1, scheduler="")["spec"],
        }
        apps = f"/apis/apps/v1/namespaces/{SCHEDULED}/deployments"
        selector = {"matchLabels": {"app": "d"}}
        admin.demand("POST", apps, {"metadata": {"name": "d"}, "spec": {
            "replicas": 2, "selector": selector, "template": template}})  # fmt: skip
        jobs = f"/apis/batch/v1/namespaces/{SCHEDULED}/jobs"
        own = {**template["spec"], "restartPolicy": "Never"}
        gang = {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
        admin.demand("POST", jobs, {"metadata": {"name": "j"}, "spec": {
            **gang, "template": {"spec": own}}})  # fmt: skip
        pods = until("all run", lambda: _running(admin, 6))
        admin.demand("DELETE", f"{jobs}/j", {"propagationPolicy": "Background"})
        admin.demand("DELETE", f"{apps}/d", {"propagationPolicy": "Background"})
        until("all are gone", lambda: not _pods(admin))
    finally:
        system.discard()

    labels = [one["metadata"]["labels"] for one in pods]
    assert all("muster.dev/workload" in one for one in labels)
    assert 4 == len([1 for one in labels if "batch.kubernetes.io/job-name" in one])


def _pods(admin):
    return admin.demand("GET", f"/api/v1/namespaces/{SCHEDULED}/pods")["items"]


def _running(admin, count):
    found = [one for one in _pods(admin) if one["status"].get("phase") == "Running"]
    return found if len(found) == count else None


async def _organise(system):
    stage = Stage(system)
    await stage.connect()
    try:
        await stage.organise()
        await stage.put(f"teams/{TEAM}", {"namespace": SCHEDULED})
    finally:
        await stage.disconnect()
