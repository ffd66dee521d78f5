"""Whether the GPUs asked for can hold the model (mission M6)."""

from __future__ import annotations

import math
from typing import Final

from shared.core.admission.fleet_shape import Composition, FleetShape
from shared.core.admission.static_fit.wishes import filters_of
from shared.core.model.decision import FieldError
from shared.core.model.mig.profiles import profile_gigabytes
from shared.core.model.nouns import PodSet, WorkloadKind, WorkloadSpec

GIGABYTE: Final = 10**9
_MIB: Final = 1 << 20
OVERHEAD_GIGABYTES: Final = (4, 8)
"""Activations and KV cache beside the weights, at least and usually (mission M6)."""


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
    return FieldError(
        field="model_parameters_billions",
        value=f"{billions:g}",
        rule=rule,
        remedy=f"ask for GPUs with {needed:g} GB of memory or more together",
    )


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
    filters = filters_of(pod_set, spec.gpu_choice)
    largest = max(
        (
            shape.gpu_memory_mib
            for shape in shapes
            if shape.gpus >= gpu.count and all(accepts(shape) for accepts in filters)
        ),
        default=0,
    )
    return gpu.count * largest * _MIB / GIGABYTE * pods
