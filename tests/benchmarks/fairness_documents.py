"""What a fairness world is to the core: documents of quota, nodes, workloads."""

from __future__ import annotations

from typing import Final

from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.benchmarks.fairness_world import FLAVOR, GPUS, Job, World

MIN_RUNTIME_MS: Final = 60_000
CHECKPOINT_SECONDS: Final = 900
ROOT: Final = "org"


def documents(world: World) -> list[QuotaDocument]:
    """Three levels: the organisation, departments, teams."""
    policy = QueuePolicy(
        within_queue=WithinQueue.NEVER,
        reclaim=Reclaim.ANY,
        min_runtime_seconds=MIN_RUNTIME_MS // 1000,
    )
    found = [QuotaDocument(name=ROOT, kind="cohort", version=1)]
    found += [
        QuotaDocument(name=name, kind="cohort", version=1, parent=ROOT, weight=weight)
        for name, weight in world.departments.items()
    ]
    found += [
        QuotaDocument(
            name=team.name,
            kind="queue",
            version=1,
            parent=team.department,
            team=team.name,
            weight=team.weight,
            policy=policy,
            flavors={
                FLAVOR: FlavorLimits(nominal=(team.nominal * GPU_MILLI, UNLIMITED, UNLIMITED))
            },
        )
        for team in world.teams
    ]
    return found


def workload_of(job: Job, at_ms: int) -> Workload:
    """A job as a workload: one pod, or whole nodes."""
    pod_set = PodSet(
        count=max(1, job.gpus // GPUS),
        gpu=GpuRequest(count=min(job.gpus, GPUS)),
        cpu_milli=0,
        memory_mib=0,
    )
    return Workload(
        id=f"w{job.number:08}",
        team=job.team,
        queue=job.team,
        cell=0,
        priority=0,
        spec=WorkloadSpec(
            name=f"w{job.number}",
            kind=WorkloadKind.TRAINING,
            pod_sets=(pod_set,),
            checkpoint_interval_seconds=CHECKPOINT_SECONDS,
        ),
        submitted_at_ms=at_ms,
    )


def node_of(name: str) -> Node:
    gpus = tuple(Gpu(index=index, uuid=f"{name}-{index}", memory_mib=16_384) for index in range(8))
    return Node(
        name=name,
        flavor=FLAVOR,
        product="P100",
        cpu_milli=96_000,
        memory_mib=768_000,
        gpus=gpus,
    )
