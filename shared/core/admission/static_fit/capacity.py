"""How many pods of a set empty nodes hold: one node, and all of a flavor together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.admission.fleet_shape import NodeShape
from shared.core.admission.static_fit.wishes import filters_of
from shared.core.model.charges import gpu_milli as pod_gpu_milli
from shared.core.model.charges import least_count
from shared.core.model.mig.reported import table_of
from shared.core.model.mig.table import MigTable
from shared.core.model.nouns import PodSet, Spread, WorkloadSpec
from shared.core.model.units import GPU_MILLI, pods_within, shares_within

MANY: Final = 1 << 40


def holds(spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeShape, int]) -> bool:
    """Whether the nodes of `flavor` hold every pod set, and by sums all of them together."""
    pods = gpus = cpu = memory = 0
    places: set[NodeShape] = set()
    for pod_set in spec.pod_sets:
        count = least_count(pod_set)
        rooms = usable(pod_set, spec, flavor, nodes)
        if _pods(rooms, nodes) < count:
            return False
        places.update(rooms)
        pods += count
        gpus += pod_gpu_milli(pod_set.gpu) * count
        cpu += (pod_set.cpu_milli or 0) * count
        memory += (pod_set.memory_mib or 0) * count
    if len(spec.pod_sets) == 1:
        return True
    if spec.spread is Spread.REQUIRED and pods > sum(nodes[shape] for shape in places):
        return False
    mine = [(shape, count) for shape, count in nodes.items() if shape.flavor == flavor]
    return (
        gpus <= sum(one.devices * count for one, count in mine) * GPU_MILLI
        and cpu <= sum(one.cpu_milli * count for one, count in mine)
        and memory <= sum(one.memory_mib * count for one, count in mine)
    )


def capacity(
    pod_set: PodSet, spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeShape, int]
) -> int:
    """Pods of `pod_set` that the nodes of `flavor` hold when nothing else runs."""
    return _pods(usable(pod_set, spec, flavor, nodes), nodes)


def usable(
    pod_set: PodSet, spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeShape, int]
) -> dict[NodeShape, int]:
    """Shapes of `flavor` that hold a pod of `pod_set`, and how many one such node holds."""
    filters = filters_of(pod_set, spec.gpu_choice)
    aligned, apart = spec.topology.numa_aligned, spec.spread is Spread.REQUIRED
    rooms = {
        shape: pods_per_node(pod_set, shape, aligned=aligned)
        for shape in nodes
        if shape.flavor == flavor and all(accepts(shape) for accepts in filters)
    }
    return {shape: 1 if apart else room for shape, room in rooms.items() if room}


def _pods(rooms: Mapping[NodeShape, int], nodes: Mapping[NodeShape, int]) -> int:
    return sum(room * nodes[shape] for shape, room in rooms.items())


def pods_per_node(pod_set: PodSet, shape: NodeShape, *, aligned: bool = False) -> int:
    """How many pods of `pod_set` one empty node of `shape` holds; O(NUMA domains).

    `aligned`: the GPUs of each in one NUMA domain.
    """
    pods = gpu_pods_per_node(pod_set, shape)
    if aligned and pod_set.gpu.count:
        pods = sum(gpus // pod_set.gpu.count for gpus in shape.gpus_by_numa)
    return pods_within(
        pods, shape.cpu_milli, pod_set.cpu_milli, shape.memory_mib, pod_set.memory_mib
    )


def gpu_pods_per_node(pod_set: PodSet, shape: NodeShape) -> int:
    """The same by GPUs alone."""
    gpu = pod_set.gpu
    if gpu.count:
        return shape.gpus // gpu.count
    if gpu.milli:
        shares = shares_within(0, shape.gpu_memory_mib, gpu.milli, gpu.memory_mib)
        return shape.gpus * shares
    if gpu.mig_profile:
        return instances(gpu.mig_profile, shape) // max(gpu.mig_count, 1)
    return MANY


def instances(profile: str, shape: NodeShape) -> int:
    """MIG instances of a profile that an empty node holds."""
    if not shape.mig_gpus:
        return 0
    table = _table(shape)
    if table is None or profile not in table.profiles:
        return 0
    return table.room(0, profile) * shape.mig_gpus


def profiles(shape: NodeShape) -> tuple[str, ...]:
    """MIG profiles that GPUs of such a node can have."""
    table = _table(shape)
    return tuple(table.profiles) if table is not None else ()


def _table(shape: NodeShape) -> MigTable | None:
    return table_of(shape.product, shape.gpu_memory_mib, shape.mig)
