"""Muster on a fabric, asked through its own door: leaf is a rack, pod a block, all one zone."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Level,
    Node,
    Placement,
    PodSet,
    Slice,
    TopologyRequest,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.clos import CPU_PER_GPU, GPUS, Host, Job

FLAVOR = "lingjun"
TEAM = "team"


class MusterFabric:
    """The core itself; gangs ask for the smallest span and take any."""

    def __init__(self, hosts: Sequence[Host], seed: int, *, shaped: bool = False) -> None:
        """`shaped`: gangs ask that each of their pipelines lies in one leaf, if that can be."""
        self._shaped = shaped
        self._index = {host.name: at for at, host in enumerate(hosts)}
        self._requests: dict[tuple[int, int, int], PlacementRequest] = {}
        self._placed: dict[tuple[int, ...], list[Placement]] = {}
        self.cluster = Cluster(seed=seed)
        for host in hosts:
            self.cluster.put_node(_node(host))

    def place(self, job: Job) -> tuple[int, ...] | None:
        """The host of each pod by rank, charged; or None."""
        answer = place(self.cluster, self._request(job, shaped=self._shaped))
        if self._shaped and not isinstance(answer, Placement):
            answer = place(self.cluster, self._request(job))
        if not isinstance(answer, Placement):
            return None
        held = tuple(self._index[pod.node] for pod in answer.pods)
        self._placed.setdefault((job.gpus, *held), []).append(answer)
        return held

    def release(self, job: Job, held: Sequence[int]) -> None:
        """Give back what `place` gave; equal placements are interchangeable."""
        placement = self._placed[job.gpus, *held].pop()
        pod_sets = self._request(job).workload.spec.pod_sets
        self.cluster.release(TEAM, placement.pods, pod_sets)

    def _request(self, job: Job, *, shaped: bool = False) -> PlacementRequest:
        stages = job.stages if shaped else 1
        key = (job.gpus, job.hosts, stages)
        request = self._requests.get(key)
        if request is None:
            request = self._requests[key] = _request(job, stages)
        return request


def _node(host: Host) -> Node:
    return Node(
        name=host.name,
        flavor=FLAVOR,
        product="NVIDIA-H800",
        cpu_milli=128_000,
        memory_mib=1 << 20,
        gpus=tuple(
            Gpu(index=gpu, uuid=f"{host.name}-{gpu}", memory_mib=81_920) for gpu in range(GPUS)
        ),
        rack=host.leaf,
        block=host.pod,
        zone="lingjun",
    )


def _request(job: Job, stages: int) -> PlacementRequest:
    pods = PodSet(
        count=job.hosts,
        slices=(Slice(pods=stages, level=Level.RACK),) if stages > 1 else (),
        gpu=GpuRequest(count=job.gpus),
        cpu_milli=1000 * CPU_PER_GPU * job.gpus,
        memory_mib=1024 * job.gpus,
    )
    spec = WorkloadSpec(
        name="job",
        kind=WorkloadKind.TRAINING,
        pod_sets=(pods,),
        topology=TopologyRequest(preferred=Level.RACK),
    )
    workload = Workload(
        id="job", team=TEAM, queue="q", cell=0, priority=0, spec=spec, submitted_at_ms=0
    )
    return PlacementRequest(workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED})
