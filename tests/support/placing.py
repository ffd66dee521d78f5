"""Small fleets and workloads for tests of the placement core, in few words."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.model.decision import Refusal
from shared.core.model.nouns import (
    Gpu,
    GpuChoice,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Spread,
    TopologyRequest,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster

A100 = "NVIDIA-A100-SXM4-80GB"
A100_MIB = 81_920


def node(
    name: str,
    *,
    gpus: int = 8,
    mig: Sequence[int] = (),
    unhealthy: Sequence[int] = (),
    flavor: str = "a100",
    product: str = A100,
    cpu_milli: int = 96_000,
    memory_mib: int = 1 << 20,
    gpu_memory_mib: int = A100_MIB,
    gpus_per_numa: int = 4,
    **rest: object,
) -> Node:
    """A node of `gpus` A100; those in `mig` are in MIG mode. `rest` are fields of Node."""
    return Node(
        name=name,
        flavor=flavor,
        product=product,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        gpus=tuple(
            Gpu(
                index=index,
                uuid=f"GPU-{name}-{index}",
                memory_mib=gpu_memory_mib,
                mig=index in mig,
                healthy=index not in unhealthy,
                numa=index // gpus_per_numa,
            )
            for index in range(gpus)
        ),
        **rest,  # type: ignore[arg-type]
    )


def racks(*sizes: int, gpus: int = 8, racks_of_block: int = 2) -> list[Node]:
    """One rack for each size, in one zone: nodes `r0-n0`, `r0-n1`, ..., blocks `b0`, `b1`, ..."""
    return [
        node(
            f"r{rack}-n{number}",
            gpus=gpus,
            rack=f"r{rack}",
            block=f"b{rack // racks_of_block}",
            zone="z",
        )
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def cluster(*nodes: Node, seed: int = 0) -> Cluster:
    """A cluster of `nodes`."""
    built = Cluster(seed=seed)
    for each in nodes:
        built.put_node(each)
    return built


def whole(count: int) -> GpuRequest:
    return GpuRequest(count=count)


def share(milli: int, memory_mib: int = 1) -> GpuRequest:
    return GpuRequest(milli=milli, memory_mib=memory_mib)


def mig(profile: str, count: int = 1) -> GpuRequest:
    return GpuRequest(mig_profile=profile, mig_count=count)


def pods(
    gpu: GpuRequest | None = None,
    count: int = 1,
    *,
    name: str = "main",
    cpu_milli: int = 0,
    memory_mib: int = 0,
) -> PodSet:
    return PodSet(
        name=name,
        count=count,
        gpu=gpu or GpuRequest(),
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
    )


def workload(
    *pod_sets: PodSet,
    team: str = "red",
    choice: GpuChoice | None = None,
    topology: TopologyRequest | None = None,
    spread: Spread = Spread.NONE,
) -> Workload:
    return Workload(
        id="w",
        team=team,
        queue="q",
        cell=0,
        priority=0,
        submitted_at_ms=0,
        spec=WorkloadSpec(
            name="w",
            kind=WorkloadKind.TRAINING,
            pod_sets=pod_sets,
            gpu_choice=choice or GpuChoice(),
            topology=topology or TopologyRequest(),
            spread=spread,
        ),
    )


def request(asked: Workload, *flavors: str) -> PlacementRequest:
    """With all the quota there is; flavor a100 unless told."""
    permitted = flavors or ("a100",)
    return PlacementRequest(
        workload=asked,
        flavors=permitted,
        headroom=dict.fromkeys(permitted, UNBOUNDED),
    )


def placed(fleet: Cluster, asked: Workload, *flavors: str) -> Placement:
    """Where it goes, charged; it must find a place."""
    answer = place(fleet, request(asked, *flavors))
    assert isinstance(answer, Placement), answer
    return answer


def refused(fleet: Cluster, asked: Workload, *flavors: str) -> Refusal:
    """Why it finds none."""
    answer = place(fleet, request(asked, *flavors))
    assert isinstance(answer, Refusal), answer
    return answer


def where(placement: Placement) -> list[str]:
    """The node of each pod."""
    return [pod.node for pod in placement.pods]


def racks_of(placement: Placement) -> list[str]:
    """The rack of each pod, on a fleet of `racks`."""
    return [pod.node.partition("-")[0] for pod in placement.pods]


def gpus_of(placement: Placement, pod: int = 0) -> list[int]:
    """Indices of the GPUs of one pod."""
    return [each.index for each in placement.pods[pod].shares]
