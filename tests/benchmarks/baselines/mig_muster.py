"""Muster on GPUs in MIG mode, asked through its own door: `place` and `release` of the core."""

from __future__ import annotations

from typing import Final, NamedTuple

from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    Node,
    Placement,
    PodSet,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import UNBOUNDED
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster

PRODUCT: Final = "NVIDIA-A100-SXM4-80GB"
MEMORY_MIB: Final = 81_920
PROFILES: Final = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
GPUS_OF_NODE: Final = 4
FLAVOR: Final = "a100"


class Held(NamedTuple):
    """What was given, and what gives it back."""

    gpu: int
    mask: int
    placement: Placement
    profile: int


class MigMuster:
    """The core as a policy; it learns the mix from what it is asked."""

    def __init__(self, gpus: int, seed: int) -> None:
        self._requests = [_request(name) for name in PROFILES]
        self._cluster = Cluster(seed=seed)
        self._first: dict[str, int] = {}
        for first in range(0, gpus, GPUS_OF_NODE):
            node = _node(f"node-{first}", min(GPUS_OF_NODE, gpus - first))
            self._first[node.name] = first
            self._cluster.put_node(node)

    def place(self, profile: int) -> Held | None:
        """Ask the core."""
        answer = place(self._cluster, self._requests[profile])
        if not isinstance(answer, Placement):
            return None
        ((pod),) = answer.pods
        (share,) = pod.shares
        return Held(self._first[pod.node] + share.index, share.mask, answer, profile)

    def release(self, held: Held) -> None:
        """Give it back."""
        workload = self._requests[held.profile].workload
        self._cluster.release(workload.team, held.placement.pods, workload.spec.pod_sets)


def _node(name: str, gpus: int) -> Node:
    return Node(
        name=name,
        flavor=FLAVOR,
        product=PRODUCT,
        cpu_milli=128_000,
        memory_mib=1 << 20,
        gpus=tuple(
            Gpu(index=index, uuid=f"{name}-{index}", memory_mib=MEMORY_MIB, mig=True)
            for index in range(gpus)
        ),
    )


def _request(profile: str) -> PlacementRequest:
    spec = WorkloadSpec(
        name="pod",
        kind=WorkloadKind.INFERENCE,
        pod_sets=(PodSet(gpu=GpuRequest(mig_profile=profile, mig_count=1)),),
    )
    workload = Workload(
        id="pod", team="red", queue="q", cell=0, priority=0, spec=spec, submitted_at_ms=0
    )
    return PlacementRequest(workload=workload, flavors=(FLAVOR,), headroom={FLAVOR: UNBOUNDED})
