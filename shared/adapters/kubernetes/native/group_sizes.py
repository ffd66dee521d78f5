"""How many pods the group of an object has, from the object's spec; of each part, if in parts.

Each function raises `NotHonoured` for what Muster cannot do, and `msgspec.ValidationError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.adapters.kubernetes.objects import Object


class NotHonoured(ValueError):  # noqa: N818  # a finding, not a failure
    """A field that cannot be honoured: its path, its value, the rule."""


class PodGroupSpec(Object, frozen=True, kw_only=True):
    """Of coscheduling, Volcano and KAI."""

    min_member: int = 1
    min_task_member: dict[str, int] | None = None
    sub_groups: tuple[Any, ...] | None = None
    network_topology: dict[str, Any] | None = None


class GangPolicy(Object, frozen=True, kw_only=True):
    """Of Kubernetes."""

    min_count: int = 1


class SchedulingPolicy(Object, frozen=True, kw_only=True):
    """Of Kubernetes: one of basic and gang."""

    gang: GangPolicy | None = None


class KubernetesPodGroupSpec(Object, frozen=True, kw_only=True):
    """Of Kubernetes."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: dict[str, Any] | None = None


class JobCounts(Object, frozen=True, kw_only=True):
    """Of the template of a Job; an absent number is one."""

    parallelism: int = 1
    completions: int | None = None


class JobTemplate(Object, frozen=True, kw_only=True):
    """Of a replicated Job."""

    spec: JobCounts = JobCounts()


class ReplicatedJob(Object, frozen=True, kw_only=True):
    """Of a JobSet."""

    name: str = ""
    replicas: int = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[Any, ...] | None = None


class StartupPolicy(Object, frozen=True, kw_only=True):
    """Of a JobSet."""

    startup_policy_order: str = "AnyOrder"


class JobSetSpec(Object, frozen=True, kw_only=True):
    """Of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy | None = None


class LwsTemplate(Object, frozen=True, kw_only=True):
    """Of a LeaderWorkerSet: pods of a group, the leader among them."""

    size: int = 1


class LwsSpec(Object, frozen=True, kw_only=True):
    """Of a LeaderWorkerSet."""

    startup_policy: str = "LeaderCreated"
    leader_worker_template: LwsTemplate = LwsTemplate()


class KubeflowRole(Object, frozen=True, kw_only=True):
    """Of a job of Kubeflow; an absent number is one."""

    replicas: int = 1


class KubeflowSpec(Object, frozen=True, kw_only=True):
    """Of a job of Kubeflow: one of these, by its kind."""

    jax_replica_specs: dict[str, KubeflowRole] | None = None
    paddle_replica_specs: dict[str, KubeflowRole] | None = None
    pytorch_replica_specs: dict[str, KubeflowRole] | None = None
    tf_replica_specs: dict[str, KubeflowRole] | None = None
    xgb_replica_specs: dict[str, KubeflowRole] | None = None


def of_pod_group(spec: dict[str, Any]) -> int:
    """Of coscheduling, Volcano and KAI."""
    found = msgspec.convert(spec, PodGroupSpec)
    for field, value in (
        ("spec.minTaskMember", found.min_task_member),
        ("spec.subGroups", found.sub_groups),
        ("spec.networkTopology", found.network_topology),
    ):
        if value:
            raise NotHonoured(field, "", "is not honoured")
    return found.min_member


def of_kubernetes(spec: dict[str, Any]) -> int:
    """Of a PodGroup of Kubernetes."""
    found = msgspec.convert(spec, KubernetesPodGroupSpec)
    if found.scheduling_constraints:
        raise NotHonoured("spec.schedulingConstraints", "", "is not honoured")
    if found.scheduling_policy.gang is None:
        raise NotHonoured(
            "spec.schedulingPolicy", "basic", "must be gang: pods of a group are a gang"
        )
    return found.scheduling_policy.gang.min_count


def of_jobset(spec: dict[str, Any]) -> int | Mapping[str, int]:
    """Of a JobSet: the pods of all its Jobs; those of each where some start after others."""
    found = msgspec.convert(spec, JobSetSpec)
    pods = [
        (one.name, one.replicas * _at_once(one.template.spec)) for one in found.replicated_jobs
    ]
    policy = found.startup_policy
    in_order = policy is not None and policy.startup_policy_order != "AnyOrder"
    if in_order or any(one.depends_on for one in found.replicated_jobs):
        return dict(pods)
    return sum(size for _, size in pods)


def of_lws(spec: dict[str, Any]) -> int | Mapping[str, int]:
    """Of a LeaderWorkerSet: one of its groups; no sizes where workers start after leaders."""
    found = msgspec.convert(spec, LwsSpec)
    return {} if found.startup_policy == "LeaderReady" else found.leader_worker_template.size


def _at_once(job: JobCounts) -> int:
    return job.parallelism if job.completions is None else min(job.parallelism, job.completions)


class MpiSpec(Object, frozen=True, kw_only=True):
    """Of an MPIJob: its launcher is a pod of a Job, alone."""

    mpi_replica_specs: dict[str, KubeflowRole] = msgspec.field(default_factory=dict)


class RayWorkers(Object, frozen=True, kw_only=True):
    """A group of workers of a RayCluster."""

    replicas: int = 1
    num_of_hosts: int = 1


class RaySpec(Object, frozen=True, kw_only=True):
    """Of a RayCluster."""

    worker_group_specs: tuple[RayWorkers, ...] = ()
    enable_in_tree_autoscaling: bool = False


def of_mpi(spec: dict[str, Any]) -> int:
    """Of an MPIJob: its workers."""
    found = msgspec.convert(spec, MpiSpec)
    return sum(one.replicas for role, one in found.mpi_replica_specs.items() if role == "Worker")


def of_ray(spec: dict[str, Any]) -> int:
    """Of a RayCluster: the head and all workers."""
    found = msgspec.convert(spec, RaySpec)
    if found.enable_in_tree_autoscaling:
        raise NotHonoured("spec.enableInTreeAutoscaling", "true", "a gang has one size")
    return 1 + sum(one.replicas * one.num_of_hosts for one in found.worker_group_specs)


def of_kubeflow(spec: dict[str, Any]) -> int:
    """Of a job of Kubeflow: the pods of all its roles."""
    found = msgspec.convert(spec, KubeflowSpec)
    told = (
        found.jax_replica_specs,
        found.paddle_replica_specs,
        found.pytorch_replica_specs,
        found.tf_replica_specs,
        found.xgb_replica_specs,
    )
    roles = next((one for one in told if one), {})
    return sum(one.replicas for one in roles.values())
