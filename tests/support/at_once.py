"""A queue whose work may be evicted at once, and work of one pod, through the front door."""

from __future__ import annotations

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from tests.support.system import TEAM, UNLIMITED, Stage
from tests.support.work import fleet

POLICY = {"min_runtime_seconds": 0, "cooldown_seconds": 0}


async def submitted(
    stage: Stage, name: str, gpus: int, priority_class: str = "", *, team: str = TEAM
) -> str:
    """Submit; the id of the workload."""
    pod_set = PodSet(gpu=GpuRequest(count=gpus), cpu_milli=1_000, memory_mib=1_024)
    spec = WorkloadSpec(
        name=name,
        kind=WorkloadKind.TRAINING,
        pod_sets=(pod_set,),
        priority_class=priority_class,
        grace_seconds=5,
    )
    assert await stage.submit_http(spec, name, team=team) in (200, 202)
    found = await stage.get("workloads?limit=200")
    (one,) = [one for one in found["items"] if one["name"] == name]
    return str(one["id"])


async def organise(stage: Stage, nodes: int, gpu_milli: int = UNLIMITED) -> None:
    """One queue that owns `gpu_milli`, and machines with eight GPUs each."""
    await stage.organise()
    limits = {"gpu_milli": gpu_milli, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    flavors = [{"flavor": "default", "nominal": limits}]
    await stage.put(f"queues/{TEAM}", {"team": TEAM, "flavors": flavors, "policy": POLICY})
    await stage.nodes(list(fleet(nodes)))
