"""A cluster as work leaves it: filled by a trace, then thinned at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import msgspec

from shared.core.cluster.tenants import Running
from shared.core.model.nouns import Placement, PodSet, Workload, WorkloadKind, WorkloadSpec
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.defragmentation.defragment import Plan
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.baselines.muster import FLAVOR, node_of, request_of
from tests.benchmarks.openb import TraceNode, TracePod, arrivals, permuted
from tests.support import placing

DEPARTED = 0.30
WHOLE_NODE_GPUS = 8
GANG_CPU_MILLI = 64_000
"""What a pod on a whole node asks for: every machine of openb with 8 GPUs has it."""


@dataclass
class Fragmented:
    """A cluster and who runs on it; `departed` of the workloads were drawn and have left."""

    cluster: Cluster
    running: dict[str, Running]

    def start(self, workload: Workload, placement: Placement) -> None:
        """Note a workload that was placed."""
        self.running[workload.id] = Running(
            workload=workload, placement=placement, cost=placement.charge.gpu_milli
        )

    def carry_out(self, plan: Plan) -> None:
        """Make the moves of `plan` in order, each new place before the old one."""
        for move in plan.moves:
            old = self.running[move.workload_id]
            team, pod_sets = old.workload.team, old.workload.spec.pod_sets
            self.cluster.charge(team, move.to_pods, pod_sets)
            self.cluster.release(team, move.from_pods, pod_sets)
            placement = msgspec.structs.replace(old.placement, pods=move.to_pods)
            self.running[move.workload_id] = replace(old, placement=placement)


def fragmented(
    nodes: Sequence[TraceNode], pods: list[TracePod], seed: int, arrived: float = 1.0
) -> Fragmented:
    """Filled until `arrived` of the capacity was asked for, then `DEPARTED` of it gone."""
    found = Fragmented(Cluster(seed=seed), {})
    for node in permuted(list(nodes), seed):
        found.cluster.put_node(node_of(node))
    asked_milli = 0
    for number, pod in enumerate(arrivals(pods, found.cluster.gpu_milli_total(), seed)):
        asked_milli += pod.gpu_milli
        if asked_milli > arrived * found.cluster.gpu_milli_total():
            break
        request = request_of(pod)
        workload = msgspec.structs.replace(request.workload, id=f"pod-{number:05d}")
        answer = place(found.cluster, replace(request, workload=workload))
        if isinstance(answer, Placement):
            found.start(workload, answer)
    draw = Random(seed)
    for name in draw.sample(sorted(found.running), int(DEPARTED * len(found.running))):
        gone = found.running.pop(name)
        found.cluster.release(gone.workload.team, gone.placement.pods, gone.workload.spec.pod_sets)
    return found


def whole_nodes(number: int, nodes: int) -> PlacementRequest:
    """A gang that wants all GPUs of `nodes` machines."""
    pods = PodSet(count=nodes, gpu=placing.whole(WHOLE_NODE_GPUS), cpu_milli=GANG_CPU_MILLI)
    spec = WorkloadSpec(name="gang", kind=WorkloadKind.TRAINING, pod_sets=(pods,))
    workload = Workload(
        id=f"gang-{number:05d}",
        team="gangs",
        queue="q",
        cell=0,
        priority=0,
        spec=spec,
        submitted_at_ms=0,
    )
    return PlacementRequest(workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED})
