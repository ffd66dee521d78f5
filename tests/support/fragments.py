"""Small fleets with idle fragments, and plans of moves for a gang that waits."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.cluster.tenants import Running
from shared.core.model.nouns import (
    GpuRequest,
    Node,
    Placement,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.preemption.defragmentation.defragment import (
    DefragmentationLimits,
    NoPlan,
    Plan,
    defragment,
)
from shared.core.scoring.cluster import Cluster
from tests.support import placing


def named(name: str, workload: Workload) -> Workload:
    return replace(workload, id=name)


def pod(name: str, gpu: GpuRequest, node: str = "", *, cpu_milli: int = 0) -> Workload:
    """One pod; `node` is the pool it is bound to by its name, to force where it goes."""
    workload = named(name, placing.workload(placing.pods(gpu, cpu_milli=cpu_milli)))
    choice = replace(workload.spec.gpu_choice, node_pool=node)
    return replace(workload, spec=replace(workload.spec, gpu_choice=choice))


class Scene:
    """Nodes of 4 GPUs, each a pool of its own; pods are put where the test says."""

    def __init__(self, *nodes: Node, nodes_count: int = 3) -> None:
        made = nodes or tuple(
            placing.node(f"n{at}", gpus=4, pool=f"n{at}", cpu_milli=8000)
            for at in range(nodes_count)
        )
        self.cluster: Cluster = placing.cluster(*made)
        self.running: list[Running] = []

    def put(self, name: str, node: str, gpus: int, *, cost: int = 1, movable: bool = True) -> None:
        answer = place(
            self.cluster, placing.request(pod(name, placing.whole(gpus), node, cpu_milli=100))
        )
        assert isinstance(answer, Placement)
        free = pod(name, placing.whole(gpus), cpu_milli=100)
        self.running.append(Running(workload=free, placement=answer, cost=cost, movable=movable))

    def plan(self, gang: Workload, limits: DefragmentationLimits | None = None) -> Plan | NoPlan:
        return defragment(self.cluster, self.running, placing.request(gang), limits)


def moved(plan: Plan | NoPlan) -> Sequence[tuple[str, str]]:
    """(workload, node it goes to) of each move."""
    assert isinstance(plan, Plan), plan
    return [(move.workload_id, move.to_pods[0].node) for move in plan.moves]
