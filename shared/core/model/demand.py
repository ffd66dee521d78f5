"""What a workload asks of the nodes, in the few forms the search knows.

A workload is compiled once for each decision: pods of one set are equal, so a gang is a short list
of `PodDemand`, the hungriest first (large pods find no room once small ones have broken nodes).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from shared.core.model.charges import least_count
from shared.core.model.nouns import (
    GpuChoice,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.units import GPU_MILLI

ChoiceKey = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """One pod of a set: whole `gpus`, or a share (`milli`), or MIG `instances`, or CPU only."""

    pod_set: str
    count: int
    first_rank: int
    """Rank of the first pod of the set, counted over the whole workload."""
    gpus: int
    milli: int
    share_memory_mib: int
    profile: str
    instances: int
    cpu_milli: int
    memory_mib: int
    aligned: bool = False
    """Whether its `gpus` must be of one NUMA domain."""
    leader: bool = False
    """Whether it goes beside the others, when these have their places."""
    slices: tuple[Slice, ...] = ()
    """From the outermost to the innermost."""
    min_count: int = 0
    """How many of `count` there must be at least."""
    tolerations: tuple[str, ...] = ()
    """Taints that its pods may ignore."""
    artifacts: tuple[str, ...] = ()
    """Weights and image: a wish, no part of the shape (core/cluster/images.py)."""

    @property
    def unit(self) -> int:
        """Pods by which the set may shrink: whole slices of the outermost kind."""
        return self.slices[0].pods if self.slices else 1

    @property
    def gpu_milli(self) -> int:
        """What one pod holds of GPUs; without MIG, which counts by the board."""
        return self.gpus * GPU_MILLI + self.milli

    @property
    def wants_gpu(self) -> bool:
        """Whether the pod holds any part of a GPU."""
        return bool(self.gpus or self.milli or self.profile)

    @property
    def adds_up(self) -> bool:
        """Whether a node holds several exactly when it holds their sum."""
        return not (self.milli or self.profile or self.aligned)

    @property
    def media(self) -> bool:
        """Whether its MIG instance has the media engines."""
        return self.profile.endswith("+me")

    @property
    def shape(self) -> Hashable:
        """Equal shapes are interchangeable."""
        return (
            self.gpus,
            self.milli,
            self.share_memory_mib,
            self.profile,
            self.instances,
            self.cpu_milli,
            self.memory_mib,
            self.aligned,
            self.slices,
            self.tolerations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """All pods of a workload, to be placed together or not at all."""

    team: str
    demands: tuple[PodDemand, ...]
    choice: GpuChoice
    choice_key: ChoiceKey
    topology: TopologyRequest
    spread: Spread
    pods: int
    pins: tuple[int, ...] = ()
    """Promises with nodes that it may use: its own, and those that begin after it ends."""

    @property
    def shaped(self) -> bool:
        """Whether the pods ask for places near each other by slices or a leader."""
        return any(demand.slices or demand.leader for demand in self.demands)

    @property
    def constrained(self) -> bool:
        """Whether the fabric matters: one pod is always together."""
        level = self.topology.required or self.topology.preferred
        return self.pods > 1 and (level is not None or self.shaped)


def gang_of(workload: Workload, pins: tuple[int, ...] = ()) -> Gang:
    """Compile `workload`, which may use the nodes of these `pins`; O(pod sets)."""
    spec = workload.spec
    demands: list[PodDemand] = []
    pods = 0
    for pod_set in spec.pod_sets:
        demands.append(_demand(pod_set, pods, spec.topology))
        pods += pod_set.count
    if len(demands) > 1:
        demands.sort(key=_hunger)
    return Gang(
        team=workload.team,
        demands=tuple(demands),
        choice=spec.gpu_choice,
        choice_key=choice_key(spec.gpu_choice),
        topology=spec.topology,
        spread=spec.spread,
        pods=pods,
        pins=pins,
    )


def choice_key(choice: GpuChoice) -> ChoiceKey:
    """A hashable copy of `choice`, which holds a dict."""
    return (
        choice.products,
        tuple(sorted(choice.preferred_products.items())),
        choice.min_memory_mib,
        choice.min_driver,
        choice.cuda,
        choice.node_pool,
    )


def pod_set_shape(pod_set: PodSet) -> Hashable:
    """What of a pod set matters to placement; its image, weights and command do not."""
    return (
        pod_set.count,
        pod_set.min_count,
        pod_set.role,
        pod_set.slices,
        pod_set.gpu,
        pod_set.cpu_milli,
        pod_set.memory_mib,
        pod_set.tolerations,
    )


def _demand(pod_set: PodSet, first_rank: int, topology: TopologyRequest) -> PodDemand:
    gpu = pod_set.gpu
    return PodDemand(
        pod_set=pod_set.name,
        count=pod_set.count,
        first_rank=first_rank,
        gpus=gpu.count,
        milli=gpu.milli,
        share_memory_mib=gpu.memory_mib if gpu.milli else 0,
        profile=gpu.mig_profile,
        instances=max(gpu.mig_count, 1) if gpu.mig_profile else 0,
        cpu_milli=pod_set.cpu_milli or 0,
        memory_mib=pod_set.memory_mib or 0,
        aligned=topology.numa_aligned and gpu.count > 1,
        leader=pod_set.role is PodRole.LEADER,
        slices=pod_set.slices,
        min_count=least_count(pod_set),
        tolerations=pod_set.tolerations,
        artifacts=tuple(filter(None, (pod_set.weights, pod_set.image))),
    )


def _hunger(demand: PodDemand) -> tuple[int, ...]:
    """Sort key: leaders last; most GPUs, largest instances, shares, CPU; then set order."""
    return (
        demand.leader,
        -demand.gpus,
        -_compute_slices(demand.profile),
        -demand.instances,
        -demand.milli,
        -demand.cpu_milli,
        -demand.memory_mib,
        demand.first_rank,
    )


def _compute_slices(profile: str) -> int:
    """The leading number of "3g.40gb"; 0 for no profile, or one that no board has."""
    digits = profile.partition("g")[0]
    return int(digits) if digits.isdecimal() else 0
