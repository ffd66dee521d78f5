"""What to tell if not even the empty fleet holds a workload: field, value and nearest miss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from shared.core.admission.fleet_shape import Composition, NodeShape
from shared.core.admission.static_fit.capacity import (
    capacity,
    gpu_pods_per_node,
    instances,
    profiles,
)
from shared.core.admission.static_fit.wishes import Wish, named
from shared.core.model.charges import least_count
from shared.core.model.decision import FieldError
from shared.core.model.mig.profiles import profile_gigabytes
from shared.core.model.nouns import PodSet, Slice, Spread, WorkloadSpec
from shared.core.model.taints import GPU_TAINT
from shared.core.model.wording import count

_MET: Final = {
    "node_pool": "of pool {}",
    "products": "with {}",
    "min_memory_mib": "with {} MiB of GPU memory or more",
    "min_driver": "with driver {} or newer",
}
"""How nodes are called that have what is asked for."""


def unmet(
    wish: Wish, met: Sequence[Wish], left: Sequence[NodeShape], shapes: Composition
) -> FieldError:
    """None of `left`, the nodes that have what was asked for before, has this too."""
    field, wanted, accepts, names = wish
    have = named(names(shape) for shape in left)
    which = [_MET[name].format(asked) for name, asked, _, _ in met if asked]
    rule = f"no node has it; this fleet has: {have}"
    remedy = f"set gpu_choice.{field} to what the fleet has: {have}"
    if which:
        rule = f"no node {' and '.join(which)} has it; these have: {have}"
        remedy = f"set gpu_choice.{field} to what these nodes have: {have}"
    others = [shape for shape in shapes if accepts(shape)] if which else []
    if others:
        products = named(shape.product for shape in others)
        rule += f"; nodes with {products} have it"
        remedy += f"; or allow nodes with {products}"
    return FieldError(field=f"gpu_choice.{field}", value=wanted, rule=rule, remedy=remedy)


def no_node(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    """None of `shapes` holds one pod."""
    with_gpu = [shape for shape in shapes if gpu_pods_per_node(pod_set, shape)]
    if not with_gpu:
        return _no_gpu(path, pod_set, shapes)
    field, wanted, have = "cpu_milli", pod_set.cpu_milli or 0, 0
    have = max(shape.cpu_milli for shape in with_gpu)
    if wanted <= have:
        field, wanted = "memory_mib", pod_set.memory_mib or 0
        have = max(shape.memory_mib for shape in with_gpu)
    rule = f"must be at most {have}: the most that a node with such GPUs has"
    remedy = f"ask for at most {have} of {field} in a pod"
    if wanted <= have:
        largest = max(with_gpu, key=lambda shape: (shape.cpu_milli, shape.memory_mib))
        rule = (
            "no node has this CPU, memory and GPUs together; the nearest has "
            f"cpu_milli {largest.cpu_milli}, memory_mib {largest.memory_mib}, "
            f"{largest.devices} GPUs of {largest.product or 'no product'}"
        )
        remedy = "ask for less CPU, memory or GPUs in a pod"
    return FieldError(field=f"{path}.{field}", value=str(wanted), rule=rule, remedy=remedy)


def _no_gpu(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    gpu = pod_set.gpu
    if gpu.count:
        largest = max(shapes, key=lambda shape: shape.gpus)
        rule = (
            f"must be at most {largest.gpus}: no node that matches has more GPUs "
            f"(largest: {largest.product or 'none'}); ask for more pods of fewer GPUs"
        )
        return FieldError(
            field=f"{path}.gpu.count",
            value=str(gpu.count),
            rule=rule,
            remedy=f"ask for at most {count(largest.gpus, 'GPU')} in a pod, and for more pods",
        )
    if gpu.milli:
        memory = max((shape.gpu_memory_mib for shape in shapes if shape.gpus), default=0)
        rule = f"must be at most {memory} MiB: the largest GPU that is not in MIG mode"
        return FieldError(
            field=f"{path}.gpu.memory_mib",
            value=str(gpu.memory_mib),
            rule=rule,
            remedy=f"ask for at most {memory} MiB of GPU memory",
        )
    offered = _offered(shapes)
    most = max(instances(gpu.mig_profile, shape) for shape in shapes)
    if most:
        rule = f"must be at most {most}: no node has more instances of {gpu.mig_profile}"
        return FieldError(
            field=f"{path}.gpu.mig_count",
            value=str(gpu.mig_count),
            rule=rule,
            remedy=f"ask for at most {most} x {gpu.mig_profile} in a pod",
        )
    rule = f"no GPU in MIG mode has this profile; this fleet has: {offered}"
    nearest = _nearest_profile(gpu.mig_profile, shapes)
    if nearest:
        rule += f"; nearest: {nearest}"
    remedy = f"ask for {nearest}" if nearest else "ask for a smaller profile, or for a whole GPU"
    return FieldError(
        field=f"{path}.gpu.mig_profile", value=gpu.mig_profile, rule=rule, remedy=remedy
    )


def not_aligned(path: str, pod_set: PodSet, shapes: list[NodeShape]) -> FieldError:
    """None of `shapes` holds one pod with its GPUs in one NUMA domain."""
    largest = max(max(shape.gpus_by_numa, default=0) for shape in shapes)
    rule = (
        f"must be at most {largest} with topology.numa_aligned: no NUMA domain of a node that "
        "matches has more GPUs; ask for fewer, or leave numa_aligned out"
    )
    return FieldError(
        field=f"{path}.gpu.count",
        value=str(pod_set.gpu.count),
        rule=rule,
        remedy=f"ask for at most {count(largest, 'GPU')} in a pod, or leave"
        " topology.numa_aligned out",
    )


def too_large(spec: WorkloadSpec, flavors: Iterable[str], nodes: Composition) -> FieldError:
    """No flavor holds the whole gang."""
    return _short(spec, flavors, [nodes], "the empty cluster")


def too_wide(
    spec: WorkloadSpec, flavors: Iterable[str], domains: tuple[Composition, ...]
) -> FieldError:
    """No domain of the level that is required holds the whole gang."""
    return _short(spec, flavors, domains, f"one {spec.topology.required}")


def _short(
    spec: WorkloadSpec, flavors: Iterable[str], domains: Iterable[Composition], where: str
) -> FieldError:
    """The pod set that is short, and how many pods of it would fit at best."""
    domains = list(domains)
    apart = ", each on a node of its own" if spec.spread is Spread.REQUIRED else ""
    for index, pod_set in enumerate(spec.pod_sets):
        best, flavor = max(
            (capacity(pod_set, spec, one, domain), one)
            for one in sorted(flavors)
            for domain in domains
        )
        least = least_count(pod_set)
        if best < least:
            rule = (
                f"the gang is larger than {where}: at most {best} such pods fit{apart} ({flavor})"
            )
            return _too_many(f"pod_sets[{index}]", pod_set, rule, best)
    pods = sum(map(least_count, spec.pod_sets))
    rule = f"the pod sets together are larger than {where}{apart}; ask for fewer pods"
    remedy = f"ask for fewer than {pods} pods together"
    return FieldError(field="pod_sets", value=f"{pods} pods", rule=rule, remedy=remedy)


def too_many_slices(path: str, pod_set: PodSet, spec: WorkloadSpec, most: int) -> FieldError:
    """A slice fits, but not so many of them."""
    required = spec.topology.required
    where = "the empty cluster" if required is None else f"one {required}"
    kind = pod_set.slices[0]
    rule = (
        f"the gang is larger than {where}: at most {most} such pods fit in whole slices of "
        f"{kind.pods} in one {kind.level}"
    )
    return _too_many(path, pod_set, rule, most)


def slice_too_large(path: str, kind: Slice, most: int) -> FieldError:
    """No domain of its level holds one slice; `most` pods of it would fit."""
    rule = f"no {kind.level} holds a slice: at most {most} such pods fit"
    slices = f"slices of at most {count(most, 'pod')}"
    remedy = f"ask for {slices}, or for a wider level than {kind.level}"
    return FieldError(field=path, value=str(kind.pods), rule=rule, remedy=remedy)


def for_gpu_work(path: str) -> FieldError:
    """No node takes pods without a GPU."""
    rule = (
        f"no node that matches takes pods without a GPU: all have the taint {GPU_TAINT}; ask for "
        "a GPU, or an operator for a node without the taint"
    )
    remedy = f"ask for a GPU, or an operator for a node without the taint {GPU_TAINT}"
    return FieldError(field=f"{path}.gpu", value="", rule=rule, remedy=remedy)


def _too_many(path: str, pod_set: PodSet, rule: str, most: int) -> FieldError:
    """`most` pods of the set would fit."""
    least = least_count(pod_set)
    name = "count" if least == pod_set.count else "min_count"
    remedy = f"ask for at most {count(most, 'pod')} ({path}.{name})"
    if not most:
        remedy = "ask for smaller pods or slices, or allow a wider level of the fabric"
    return FieldError(field=f"{path}.{name}", value=str(least), rule=rule, remedy=remedy)


def _offered(shapes: Iterable[NodeShape]) -> str:
    return named(name for shape in shapes if shape.mig_gpus for name in profiles(shape))


def _nearest_profile(wanted: str, shapes: Iterable[NodeShape]) -> str:
    """The smallest profile of the fleet with at least the memory of `wanted`."""
    names = {
        name
        for shape in shapes
        if shape.mig_gpus
        for name in profiles(shape)
        if profile_gigabytes(name) >= profile_gigabytes(wanted)
    }
    return min(names, key=lambda name: (profile_gigabytes(name), name), default="")
