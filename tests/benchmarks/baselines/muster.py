"""Muster itself, asked through its own door: `core.placement.place` on a `Cluster`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.core.model.nouns import (
    Gpu,
    GpuChoice,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, learn, place
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.baselines.fleet import Fleet
from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod

GPU_MEMORY_MIB = 16_384
"""The trace names no GPU memory; shares ask for next to none of it."""
FLAVOR = "openb"


class Muster:
    """The core, and the fleet of arrays as the judge of what it does."""

    def __init__(self, fleet: Fleet, nodes: Sequence[TraceNode], seed: int) -> None:
        """`fleet` is only charged, never read."""
        self._fleet = fleet
        self._index = {name: at for at, name in enumerate(fleet.names)}
        self._requests: dict[TracePod, PlacementRequest] = {}
        self.cluster = Cluster(seed=seed)
        for node in nodes:
            self.cluster.put_node(node_of(node))

    def place(self, pod: TracePod) -> tuple[int, Sequence[int]] | None:
        """As `Scan.place`."""
        request = self._requests.get(pod)
        if request is None:
            request = self._requests[pod] = request_of(pod)
        answer = place(self.cluster, request)
        if not isinstance(answer, Placement):
            return None
        (placed,) = answer.pods
        node = self._index[placed.node]
        gpus = [share.index for share in placed.shares]
        self._fleet.take(node, gpus, pod)
        return node, gpus

    def learn(self, pods: Iterable[TracePod]) -> None:
        """Know these as earlier requests."""
        for pod in pods:
            learn(self.cluster, request_of(pod).workload, FLAVOR)


def node_of(node: TraceNode) -> Node:
    """A machine of the trace as an agent would report it."""
    return Node(
        name=node.name,
        flavor=FLAVOR,
        product=node.model,
        cpu_milli=node.cpu_milli,
        memory_mib=node.memory_mib,
        gpus=tuple(
            Gpu(index=gpu, uuid=f"{node.name}-{gpu}", memory_mib=GPU_MEMORY_MIB)
            for gpu in range(node.gpus)
        ),
    )


def request_of(pod: TracePod) -> PlacementRequest:
    """A pod of the trace as a workload with all the quota there is."""
    gpu = GpuRequest(count=pod.gpus)
    if pod.gpus == 1 and pod.milli < GPU_MILLI:
        gpu = GpuRequest(milli=pod.milli, memory_mib=1)
    pods = PodSet(gpu=gpu, cpu_milli=pod.cpu_milli, memory_mib=pod.memory_mib)
    spec = WorkloadSpec(
        name="pod",
        kind=WorkloadKind.TRAINING,
        pod_sets=(pods,),
        gpu_choice=GpuChoice(products=pod.models if pod.gpus else ()),
    )
    workload = Workload(
        id="pod", team="openb", queue="q", cell=0, priority=0, spec=spec, submitted_at_ms=0
    )
    return PlacementRequest(workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED})
