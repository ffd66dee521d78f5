"""A control plane with the policies of `deploy/kube/policies`, as they are shipped.

It is one of its own: they hold in every namespace, and other tests make up pods of Muster.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.kube.api import ApiClient, documents_of
from deploy.kube.control_plane import ControlPlane
from shared.adapters.kubernetes.manifest import Making, manifest
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.ports.cluster import Pod, PodTemplate
from tests.fixtures.kube import KubeCluster, make_namespace
from tests.fixtures.shared_folder import mark

POLICIES: Final = Path(__file__).resolve().parents[2] / "deploy" / "kube" / "policies"
NODES: Final = 6
MANAGED: Final = "managed"
SCHEDULED: Final = "scheduled"
GPUS_ONLY: Final = "gpus-only"
FREE: Final = "free"
EXEMPT: Final = "exempt"
OLD: Final = "older-than-the-policies"
RESTRICTED: Final = {
    "muster.dev/managed": "true",
    "pod-security.kubernetes.io/enforce": "restricted",
}
NAMESPACES: Final = {
    MANAGED: RESTRICTED,
    SCHEDULED: {**RESTRICTED, "muster.dev/schedule": "all"},
    GPUS_ONLY: {"muster.dev/schedule": "gpu"},
    FREE: {},
    EXEMPT: {"muster.dev/exempt": "true"},
}
MADE: Final = {
    "everything": PodSet(
        image="registry.example.org/a/b:1", command=("python",), environment={"A": "1"},
        secrets=("wandb",), volumes=("datasets", "models:/models:ro"), shm_mib=512,
        gpu=GpuRequest(count=2), tolerations=("maintenance:NoExecute", "spot"),
    ),
    "hostile words": PodSet(
        image="a/b:1", command=("$(id)", "\u2028", "hostPath: {path: /}"),
        environment={"A": "${B}"}, gpu=GpuRequest(count=1),
    ),
    "no GPU": PodSet(image="a/b:1"),
}  # fmt: skip
"""Pod sets of submissions."""
EFFECT_SECONDS: Final = 30
SAFE: Final = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def policy_documents() -> list[dict[str, Any]]:
    """All of them, the parameters first."""
    files = sorted(POLICIES.rglob("*.yaml"), key=lambda path: path.name != "parameters.yaml")
    return [document for file in files for document in documents_of(file)]


@contextmanager
def policed(folder: Path) -> Iterator[KubeCluster]:
    """Such a cluster with a namespace of each kind, once the policies are in force."""
    plane = ControlPlane(folder, nodes=NODES, environment=mark())
    plane.start()
    try:
        kube = KubeCluster(folder)
        with kube.client() as admin:
            make_namespace(admin, OLD, {"muster.dev/managed": "true"})
            admin.create_all(policy_documents())
            for name, labels in NAMESPACES.items():
                make_namespace(admin, name, labels)
            _wait_for_effect(admin)
        yield kube
    finally:
        plane.stop()


def _wait_for_effect(admin: ApiClient) -> None:
    """Return when each of them has done what it does, on pods that are not created."""
    deadline = time.monotonic() + EFFECT_SECONDS
    while waits := sorted(_without_effect(admin)):
        assert time.monotonic() < deadline, waits
        time.sleep(0.2)


def _without_effect(admin: ApiClient) -> Iterator[str]:
    dry = "?dryRun=All"
    for name, (path, body) in PROBES.items():
        status, answer = admin.request("POST", path + dry, body)
        if status not in (403, 422):
            yield name
        elif f"'{name}'" not in answer["message"]:
            yield f"{name}: {answer['message']}"
    pods = f"/api/v1/namespaces/{SCHEDULED}/pods"
    _, answer = admin.request("POST", pods + dry, pod("probe", gpus=1, scheduler=""))
    told = json.dumps(answer.get("spec", {}))
    if '"muster"' not in told or "muster-shm" not in told:
        yield "muster-schedule"
    _, answer = admin.request("POST", pods + dry, pod("probe"))
    if '"void"' not in json.dumps(answer.get("spec", {})):
        yield "muster-void"


def pod(
    name: str,
    *,
    gpus: int = 0,
    scheduler: str = "muster",
    container: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """One that passes everywhere; what is given goes before."""
    limits = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    main = {
        "name": "main",
        "image": "registry.example.org/a/b:1",
        "resources": {"limits": limits},
        "securityContext": SAFE,
        **(container or {}),
    }
    named = {"schedulerName": scheduler} if scheduler else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 1, **named, **spec},
    }


def claim(device_class: str, kind: str = "ResourceClaim") -> dict[str, Any]:
    """A claim, or a template of one, for a device of this class."""
    requests = [{"name": "a", "exactly": {"deviceClassName": device_class}}]
    spec: dict[str, Any] = {"devices": {"requests": requests}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec if kind == "ResourceClaim" else {"spec": spec},
    }


def made_by_binder(pod_set: PodSet, **changes: Any) -> dict[str, Any]:
    """What the binder sends for a pod of a submission, but for `changes` of its spec."""
    shares = tuple(
        GpuShare(index=n, mask=255, milli=1000, memory_mib=1) for n in range(pod_set.gpu.count)
    )
    wanted = Pod(
        name="w1-1-0", namespace=MANAGED, workload_id="w1", attempt=1, rank=0, size=2, epoch=1,
        team="red", template=PodTemplate(pod_set=pod_set), shares=shares,
    )  # fmt: skip
    document = manifest(wanted, Making(instance="default", user_id=1000))
    return {**document, "spec": {**document["spec"], **changes}}


def _map(key: str) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "data": {key: "all"}}


_PODS: Final = f"/api/v1/namespaces/{MANAGED}/pods"
_BINDING: Final = {"metadata": {"name": "none"}, "target": {"kind": "Node", "name": "gpu-0000"}}
_CLAIMS: Final = f"/apis/resource.k8s.io/v1/namespaces/{MANAGED}/resourceclaims"
PROBES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "muster-pods": (_PODS, pod("a", nodeName="gpu-0000")),
    "muster-gpus": (_PODS, pod("a", gpus=1, scheduler="x")),
    "muster-keys": (_PODS, pod("a", metadata={"labels": {"muster.dev/team": "x"}})),
    "muster-claims": (_CLAIMS, claim("gpu.nvidia.com")),
    "muster-binding": (f"/api/v1/namespaces/{MANAGED}/bindings", _BINDING),
    "muster-environment": (f"/api/v1/namespaces/{MANAGED}/configmaps", _map("NVIDIA_X")),
    "muster-namespaces": (
        "/api/v1/namespaces",
        {"metadata": {"name": "a", "labels": {"muster.dev/managed": "true"}}},
    ),
}
