"""Could this ever run? A workload against the empty fleet (mission A5, M5, M6, M7).

Only necessary conditions are checked, one pod set at a time and then their sum, so nothing that
could be placed is ever refused; what is refused here would wait for ever. A refusal says what is
missing and the nearest thing that would fit. A gang runs in one flavor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from shared.core.decision import FieldError
from shared.core.fleet_shape import Composition, FleetShape, NodeShape
from shared.core.mig import MigTable
from shared.core.mig_profiles import profile_gigabytes
from shared.core.mig_reported import table_of
from shared.core.model import GpuChoice, PodSet, WorkloadKind, WorkloadSpec, least_count
from shared.core.model import gpu_milli as pod_gpu_milli
from shared.core.units import GPU_MILLI

MANY: Final = 1 << 40
GIGABYTE: Final = 10**9
_MIB: Final = 1 << 20
OVERHEAD_GIGABYTES: Final = (4, 8)
"""Activations and KV cache beside the weights, at least and usually (mission M6)."""
NAMED_MAX: Final = 8


def fitting_flavors(
    spec: WorkloadSpec, fleet: FleetShape
) -> tuple[frozenset[str], FieldError | None]:
    """Flavors in which the whole gang fits on an empty fleet, or what stands in the way.

    O(different shapes x pod sets), plus O(different domains) with a required level. The spec is
    well formed and its defaults are filled. An empty fleet refuses nothing, and says nothing.
    """
    if not fleet.shapes:
        return frozenset(), None
    flavors = None
    for index, pod_set in enumerate(spec.pod_sets):
        usable, error = _usable(f"pod_sets[{index}]", pod_set, spec, fleet.shapes)
        if error is not None:
            return frozenset(), error
        here = {shape.flavor for shape in usable}
        flavors = here if flavors is None else flavors & here
    if not flavors:
        rule = "all pod sets must fit one flavor of nodes; no flavor holds every one of them"
        return frozenset(), FieldError(field="pod_sets", value="", rule=rule)
    whole = {one for one in flavors if _holds(spec, one, fleet.shapes)}
    if not whole:
        return frozenset(), _too_large(spec, flavors, fleet.shapes)
    level = spec.topology.required
    if level is not None:
        domains = fleet.compositions(level)
        whole = {one for one in whole if any(_holds(spec, one, domain) for domain in domains)}
        if not whole:
            return frozenset(), _too_wide(spec, flavors, domains)
    return _with_slices(spec, whole, fleet)


def _with_slices(
    spec: WorkloadSpec, flavors: set[str], fleet: FleetShape
) -> tuple[frozenset[str], FieldError | None]:
    """Those of `flavors` with a domain for one slice of each kind, or what stands in the way."""
    for index, pod_set in enumerate(spec.pod_sets):
        for at, each in enumerate(pod_set.slices):
            domains = fleet.compositions(each.level)
            most = {
                one: max(_capacity(pod_set, spec, one, domain) for domain in domains)
                for one in flavors
            }
            flavors = {one for one in flavors if most[one] >= each.pods}
            if not flavors:
                rule = f"no {each.level} holds a slice: at most {max(most.values())} such pods fit"
                path = f"pod_sets[{index}].slices[{at}].pods"
                return frozenset(), FieldError(field=path, value=str(each.pods), rule=rule)
    return frozenset(flavors), None


def _usable(
    path: str, pod_set: PodSet, spec: WorkloadSpec, shapes: Composition
) -> tuple[list[NodeShape], FieldError | None]:
    left = list(shapes)
    for field, wanted, accepts, names in _wishes(pod_set, spec.gpu_choice):
        kept = [shape for shape in left if accepts(shape)]
        if not kept:
            have = _named(names(shape) for shape in left)
            rule = f"no node has it; this fleet has: {have}"
            return [], FieldError(field=f"gpu_choice.{field}", value=wanted, rule=rule)
        left = kept
    fitting = [shape for shape in left if pods_per_node(pod_set, shape)]
    if not fitting:
        return [], _no_node(path, pod_set, left)
    if not spec.topology.numa_aligned:
        return fitting, None
    aligned = [shape for shape in fitting if pods_per_node(pod_set, shape, aligned=True)]
    if aligned:
        return aligned, None
    return [], _not_aligned(path, pod_set, fitting)


_Wish = tuple[str, str, Callable[[NodeShape], bool], Callable[[NodeShape], str]]


def _wishes(pod_set: PodSet, choice: GpuChoice) -> Iterable[_Wish]:
    if choice.node_pool:
        yield (
            "node_pool",
            choice.node_pool,
            lambda shape: shape.pool == choice.node_pool,
            lambda shape: shape.pool,
        )
    else:
        yield (
            "node_pool",
            "",
            lambda shape: not shape.dedicated,
            lambda shape: f"{shape.pool} (name it to use it)",
        )
    if not pod_gpu_milli(pod_set.gpu):
        return
    if choice.products:
        yield (
            "products",
            ", ".join(choice.products[:NAMED_MAX]),
            lambda shape: shape.product in choice.products,
            lambda shape: shape.product,
        )
    if choice.min_memory_mib:
        yield (
            "min_memory_mib",
            str(choice.min_memory_mib),
            lambda shape: shape.gpu_memory_mib >= choice.min_memory_mib,
            lambda shape: f"{shape.product} {shape.gpu_memory_mib} MiB",
        )
    if choice.min_driver:
        yield (
            "min_driver",
            choice.min_driver,
            lambda shape: _at_least(shape.driver, choice.min_driver),
            lambda shape: shape.driver,
        )
    if choice.cuda:
        yield (
            "cuda",
            choice.cuda,
            lambda shape: _at_least(shape.cuda, choice.cuda),
            lambda shape: shape.cuda,
        )


def _at_least(have: str, wanted: str) -> bool:
    """Whether version `have` is not older; one that is not told is older than any."""
    return _version(have) >= _version(wanted)


def _version(text: str) -> list[int]:
    return [int(number) for number in _digits(text)]


_digits: Final = re.compile(r"\d+").findall


def pods_per_node(pod_set: PodSet, shape: NodeShape, *, aligned: bool = False) -> int:
    """How many pods of `pod_set` one empty node of `shape` holds; O(NUMA domains).

    `aligned`: the GPUs of each in one NUMA domain.
    """
    pods = gpu_pods_per_node(pod_set, shape)
    if aligned and pod_set.gpu.count:
        pods = sum(gpus // pod_set.gpu.count for gpus in shape.gpus_by_numa)
    if pod_set.cpu_milli:
        pods = min(pods, shape.cpu_milli // pod_set.cpu_milli)
    if pod_set.memory_mib:
        pods = min(pods, shape.memory_mib // pod_set.memory_mib)
    return pods


def gpu_pods_per_node(pod_set: PodSet, shape: NodeShape) -> int:
    """The same by GPUs alone."""
    gpu = pod_set.gpu
    if gpu.count:
        return shape.gpus // gpu.count
    if gpu.milli:
        by_memory = shape.gpu_memory_mib // gpu.memory_mib
        return shape.gpus * min(GPU_MILLI // gpu.milli, by_memory)
    if gpu.mig_profile:
        return _instances(gpu.mig_profile, shape) // max(gpu.mig_count, 1)
    return MANY


def _instances(profile: str, shape: NodeShape) -> int:
    if not shape.mig_gpus:
        return 0
    table = _table(shape)
    if table is None or profile not in table.profiles:
        return 0
    return table.room(0, profile) * shape.mig_gpus


def _table(shape: NodeShape) -> MigTable | None:
    return table_of(shape.product, shape.gpu_memory_mib, shape.mig)


def _profiles(shape: NodeShape) -> tuple[str, ...]:
    table = _table(shape)
    return tuple(table.profiles) if table is not None else ()


def _no_node(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    with_gpu = [shape for shape in shapes if gpu_pods_per_node(pod_set, shape)]
    if not with_gpu:
        return _no_gpu(path, pod_set, shapes)
    field, wanted, have = "cpu_milli", pod_set.cpu_milli or 0, 0
    have = max(shape.cpu_milli for shape in with_gpu)
    if wanted <= have:
        field, wanted = "memory_mib", pod_set.memory_mib or 0
        have = max(shape.memory_mib for shape in with_gpu)
    rule = f"must be at most {have}: the most that a node with such GPUs has"
    if wanted <= have:
        largest = max(with_gpu, key=lambda shape: (shape.cpu_milli, shape.memory_mib))
        rule = (
            "no node has this CPU, memory and GPUs together; the nearest has "
            f"cpu_milli {largest.cpu_milli}, memory_mib {largest.memory_mib}, "
            f"{largest.gpus + largest.mig_gpus} GPUs of {largest.product or 'no product'}"
        )
    return FieldError(field=f"{path}.{field}", value=str(wanted), rule=rule)


def _no_gpu(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    gpu = pod_set.gpu
    if gpu.count:
        largest = max(shapes, key=lambda shape: shape.gpus)
        rule = (
            f"must be at most {largest.gpus}: no node that matches has more GPUs "
            f"(largest: {largest.product or 'none'}); ask for more pods of fewer GPUs"
        )
        return FieldError(field=f"{path}.gpu.count", value=str(gpu.count), rule=rule)
    if gpu.milli:
        memory = max((shape.gpu_memory_mib for shape in shapes if shape.gpus), default=0)
        rule = f"must be at most {memory} MiB: the largest GPU that is not in MIG mode"
        return FieldError(field=f"{path}.gpu.memory_mib", value=str(gpu.memory_mib), rule=rule)
    offered = _offered(shapes)
    most = max(_instances(gpu.mig_profile, shape) for shape in shapes)
    if most:
        rule = f"must be at most {most}: no node has more instances of {gpu.mig_profile}"
        return FieldError(field=f"{path}.gpu.mig_count", value=str(gpu.mig_count), rule=rule)
    rule = f"no GPU in MIG mode has this profile; this fleet has: {offered}"
    nearest = _nearest_profile(gpu.mig_profile, shapes)
    if nearest:
        rule += f"; nearest: {nearest}"
    return FieldError(field=f"{path}.gpu.mig_profile", value=gpu.mig_profile, rule=rule)


def _not_aligned(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    largest = max(max(shape.gpus_by_numa, default=0) for shape in shapes)
    rule = (
        f"must be at most {largest} with topology.numa_aligned: no NUMA domain of a node that "
        "matches has more GPUs; ask for fewer, or leave numa_aligned out"
    )
    return FieldError(field=f"{path}.gpu.count", value=str(pod_set.gpu.count), rule=rule)


def _offered(shapes: Iterable[NodeShape]) -> str:
    return _named(name for shape in shapes if shape.mig_gpus for name in _profiles(shape))


def _nearest_profile(wanted: str, shapes: Iterable[NodeShape]) -> str:
    """The smallest profile of the fleet with at least the memory of `wanted`."""
    names = {
        name
        for shape in shapes
        if shape.mig_gpus
        for name in _profiles(shape)
        if profile_gigabytes(name) >= profile_gigabytes(wanted)
    }
    return min(names, key=lambda name: (profile_gigabytes(name), name), default="")


def _holds(spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeShape, int]) -> bool:
    """Whether the nodes of `flavor` hold every pod set, and by sums all of them together."""
    gpus = cpu = memory = 0
    for pod_set in spec.pod_sets:
        count = least_count(pod_set)
        if _capacity(pod_set, spec, flavor, nodes) < count:
            return False
        gpus += pod_gpu_milli(pod_set.gpu) * count
        cpu += (pod_set.cpu_milli or 0) * count
        memory += (pod_set.memory_mib or 0) * count
    if len(spec.pod_sets) == 1:
        return True
    mine = [(shape, count) for shape, count in nodes.items() if shape.flavor == flavor]
    return (
        gpus <= sum((one.gpus + one.mig_gpus) * count for one, count in mine) * GPU_MILLI
        and cpu <= sum(one.cpu_milli * count for one, count in mine)
        and memory <= sum(one.memory_mib * count for one, count in mine)
    )


def _capacity(
    pod_set: PodSet, spec: WorkloadSpec, flavor: str, nodes: Mapping[NodeShape, int]
) -> int:
    """Pods of `pod_set` that the nodes of `flavor` hold when nothing else runs."""
    wishes = [accepts for _, _, accepts, _ in _wishes(pod_set, spec.gpu_choice)]
    aligned = spec.topology.numa_aligned
    return sum(
        pods_per_node(pod_set, shape, aligned=aligned) * count
        for shape, count in nodes.items()
        if shape.flavor == flavor and all(accepts(shape) for accepts in wishes)
    )


def _too_large(spec: WorkloadSpec, flavors: Iterable[str], nodes: Composition) -> FieldError:
    return _short(spec, flavors, [nodes], "the empty cluster")


def _too_wide(
    spec: WorkloadSpec, flavors: Iterable[str], domains: tuple[Composition, ...]
) -> FieldError:
    return _short(spec, flavors, domains, f"one {spec.topology.required}")


def _short(
    spec: WorkloadSpec, flavors: Iterable[str], domains: Iterable[Composition], where: str
) -> FieldError:
    """The pod set that is short, and how many pods of it would fit at best."""
    domains = list(domains)
    for index, pod_set in enumerate(spec.pod_sets):
        best, flavor = max(
            (_capacity(pod_set, spec, one, domain), one)
            for one in sorted(flavors)
            for domain in domains
        )
        least = least_count(pod_set)
        if best < least:
            rule = f"the gang is larger than {where}: at most {best} such pods fit ({flavor})"
            name = "count" if least == pod_set.count else "min_count"
            return FieldError(field=f"pod_sets[{index}].{name}", value=str(least), rule=rule)
    pods = sum(map(least_count, spec.pod_sets))
    rule = f"the pod sets together are larger than {where}; ask for fewer pods"
    return FieldError(field="pod_sets", value=f"{pods} pods", rule=rule)


def model_error(spec: WorkloadSpec, fleet: FleetShape) -> FieldError | None:
    """What is wrong when the GPUs asked for cannot hold the model, with the numbers.

    Weights and the least overhead must fit. The size of a whole GPU is the largest of the fleet
    that matches; while no node is known it is not judged.
    """
    billions = spec.model_parameters_billions
    if billions is None:
        return None
    weights = billions * spec.model_bytes_per_parameter
    held = [_held_gigabytes(one, spec, fleet.shapes) for one in spec.pod_sets]
    # Training shards the model over the gang; a replica that serves holds all of it.
    most = sum(held) if spec.kind is WorkloadKind.TRAINING else max(held)
    needed = weights + OVERHEAD_GIGABYTES[0]
    if most >= needed:
        return None
    rule = (
        f"{billions:g} billion parameters x {spec.model_bytes_per_parameter} bytes = "
        f"{weights:g} GB of weights, plus {OVERHEAD_GIGABYTES[0]}-{OVERHEAD_GIGABYTES[1]} GB for "
        f"activations and KV cache: needs at least {needed:g} GB, the request holds {most:.1f} GB"
    )
    return FieldError(field="model_parameters_billions", value=f"{billions:g}", rule=rule)


def _held_gigabytes(pod_set: PodSet, spec: WorkloadSpec, shapes: Composition) -> float:
    """GPU memory of one pod at best, of all its pods for training."""
    gpu = pod_set.gpu
    pods = pod_set.count if spec.kind is WorkloadKind.TRAINING else 1
    if gpu.milli:
        return gpu.memory_mib * _MIB / GIGABYTE * pods
    if gpu.mig_profile:
        return profile_gigabytes(gpu.mig_profile) * max(gpu.mig_count, 1) * pods
    if gpu.count and not shapes:
        return math.inf
    wishes = [accepts for _, _, accepts, _ in _wishes(pod_set, spec.gpu_choice)]
    largest = max(
        (
            shape.gpu_memory_mib
            for shape in shapes
            if shape.gpus >= gpu.count and all(accepts(shape) for accepts in wishes)
        ),
        default=0,
    )
    return gpu.count * largest * _MIB / GIGABYTE * pods


def _named(names: Iterable[str]) -> str:
    """A bounded list of different names."""
    found = sorted({name for name in names if name})
    if not found:
        return "none"
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return ", ".join(found[:NAMED_MAX]) + more
