"""From a pod of Muster to the manifest that the API server is given.

Requests equal limits, so that the pod is of the class Guaranteed; nothing restarts inside a pod,
because an attempt is the unit of a retry; the security context is that of the restricted Pod
Security Standard. Everything is data: no text of a user becomes part of a path or another field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes import naming
from shared.core.admission.volumes import mount_of
from shared.core.kubernetes.requests import mig_resource
from shared.core.model.nouns import GpuRequest, PodSet
from shared.ports.cluster import Pod

SCHEDULER: Final = "muster"
CONTAINER: Final = "main"
CLAIM: Final = "gpus"
"""The name by which a container knows the claim of its pod."""
SHM: Final = "shm"
GPU: Final = "nvidia.com/gpu"
SHARED_GPU: Final = "nvidia.com/gpu.shared"
"""As NVIDIA's device plugin names GPUs that it hands out to several."""
MASTER_PORT: Final = 29_500
"""Where torch.distributed and its like expect rank 0 to listen."""
USER_ID: Final = 1000
_SECURITY: Final = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_OF_GPU_NODES: Final = {"key": GPU, "operator": "Exists"}
"""GPU nodes are kept free of other pods by this taint."""

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """What holds for all pods of one Muster.

    `instance`: the value of the label that tells its pods from those of another Muster.
    `user_id`: the user that containers run as; its group owns the volumes.
    """

    instance: str = "default"
    user_id: int = USER_ID


def manifest(pod: Pod, making: Making, claim: str = "") -> dict[str, Any]:
    """The Pod to create; `claim`: the name of the ResourceClaim by which it has its GPUs."""
    metadata: dict[str, Any] = {
        "name": pod.name,
        "namespace": pod.namespace,
        "labels": labels_of(pod, making),
        "annotations": annotations_of(pod),
    }
    if pod.finalizers:
        metadata["finalizers"] = list(pod.finalizers)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _spec(pod, making, claim),
    }


def labels_of(pod: Pod, making: Making) -> dict[str, str]:
    """Of a pod, and of what belongs to it alone."""
    return {
        **pod.template.labels,
        naming.MANAGED_BY: naming.MUSTER,
        naming.INSTANCE: making.instance,
        naming.WORKLOAD: pod.workload_id,
        naming.ATTEMPT: str(pod.attempt),
        naming.RANK: str(pod.rank),
    }


def annotations_of(pod: Pod) -> dict[str, str]:
    """What a pod says of its attempt, beside its labels."""
    told = {
        naming.SIZE: str(pod.size),
        naming.EPOCH: str(pod.epoch),
        naming.TEAM: pod.team,
        naming.SHARES: _encoder.encode(pod.shares).decode(),
    }
    if pod.duration_seconds is not None:
        told[naming.DURATION] = f"{pod.duration_seconds:g}"
    return told


def _spec(pod: Pod, making: Making, claim: str) -> dict[str, Any]:
    template, pod_set = pod.template, pod.template.pod_set
    spec: dict[str, Any] = {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "automountServiceAccountToken": bool(template.service_account),
        "terminationGracePeriodSeconds": template.grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": making.user_id,
            "fsGroup": making.user_id,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [_OF_GPU_NODES, *map(_toleration, pod_set.tolerations)],
        "containers": [_container(pod, claim)],
        "volumes": _volumes(pod_set),
    }
    if pod_set.kubernetes_priority_class:
        spec["priorityClassName"] = pod_set.kubernetes_priority_class
    if template.service_account:
        spec["serviceAccountName"] = template.service_account
    if claim:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": claim}]
    if pod.in_gang:
        spec["hostname"] = pod.name
        spec["subdomain"] = naming.service_name(pod.workload_id, pod.attempt)
    return spec


def _container(pod: Pod, claim: str) -> dict[str, Any]:
    pod_set = pod.template.pod_set
    amounts = _resources(pod_set, pod, claim)
    resources: dict[str, Any] = {"requests": amounts, "limits": amounts}
    if claim:
        resources["claims"] = [{"name": CLAIM}]
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": pod_set.image,
        "env": [{"name": key, "value": value} for key, value in _environment(pod).items()],
        "envFrom": [{"secretRef": {"name": name}} for name in pod_set.secrets],
        "resources": resources,
        "securityContext": _SECURITY,
        "volumeMounts": _mounts(pod_set),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if pod_set.command:
        container["command"] = list(pod_set.command)
    if pod_set.arguments:
        container["args"] = list(pod_set.arguments)
    return container


def _environment(pod: Pod) -> Mapping[str, str]:
    """What is told to the work; its own variables go before ours."""
    told = {}
    if pod.in_gang:
        first = naming.pod_name(pod.workload_id, pod.attempt, 0)
        told = {
            "MASTER_ADDR": f"{first}.{naming.service_name(pod.workload_id, pod.attempt)}",
            "MASTER_PORT": str(MASTER_PORT),
            "RANK": str(pod.rank),
            "WORLD_SIZE": str(pod.size),
            # A pod is one process with GPUs counted from 0; torchrun sets its own.
            "LOCAL_RANK": "0",
        }
    if not pod.shares:
        told["NVIDIA_VISIBLE_DEVICES"] = "void"
    return {**told, **pod.template.pod_set.environment}


def _resources(pod_set: PodSet, pod: Pod, claim: str) -> Mapping[str, str]:
    amounts = {}
    if pod_set.cpu_milli:
        amounts["cpu"] = f"{pod_set.cpu_milli}m"
    if pod_set.memory_mib:
        amounts["memory"] = f"{pod_set.memory_mib}Mi"
    name = _resource_name(pod_set.gpu)
    if pod.shares and name and not claim:
        amounts[name] = str(pod.device_count)
    return amounts


def _resource_name(gpu: GpuRequest) -> str:
    """The extended resource by which a device plugin hands out what was asked for."""
    if gpu.mig_profile:
        return mig_resource(gpu.mig_profile)
    if gpu.milli:
        return SHARED_GPU
    return GPU if gpu.count else ""


def _volumes(pod_set: PodSet) -> list[dict[str, Any]]:
    claims = _claims(pod_set)
    volumes: list[dict[str, Any]] = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for claim, name in claims.items()
    ]
    if pod_set.shm_mib:
        memory = {"medium": "Memory", "sizeLimit": f"{pod_set.shm_mib}Mi"}
        volumes.append({"name": SHM, "emptyDir": memory})
    return volumes


def _mounts(pod_set: PodSet) -> list[dict[str, Any]]:
    claims = _claims(pod_set)
    mounts: list[dict[str, Any]] = [
        {"name": claims[mount.claim], "mountPath": mount.path, "readOnly": mount.read_only}
        for mount in map(mount_of, pod_set.volumes)
    ]
    if pod_set.shm_mib:
        mounts.append({"name": SHM, "mountPath": "/dev/shm"})  # noqa: S108  # the pod's own memory
    return mounts


def _claims(pod_set: PodSet) -> dict[str, str]:
    """The volume of each claim; names of volumes are shorter than those of claims."""
    claims = dict.fromkeys(mount_of(volume).claim for volume in pod_set.volumes)
    return {claim: f"claim-{index}" for index, claim in enumerate(claims)}


def _toleration(text: str) -> dict[str, str]:
    """Of KEY or KEY=VALUE, with or without :EFFECT."""
    body, _, effect = text.partition(":")
    key, has_value, value = body.partition("=")
    toleration = {"key": key, "operator": "Exists"}
    if has_value:
        toleration = {"key": key, "operator": "Equal", "value": value}
    return {**toleration, "effect": effect} if effect else toleration
