"""What quota counts for what was asked for: milli-GPU, CPU and memory."""

from __future__ import annotations

from shared.core.model.amounts import Amount
from shared.core.model.mig.profiles import counted_milli
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadSpec
from shared.core.model.units import GPU_MILLI, Resources


def gpu_milli(request: GpuRequest) -> int:
    """Milli-GPU that quota counts for one pod (mission Q2); MIG by its memory slices.

    A MIG profile counts its part of the memory slices of a GPU; "1g.10gb" is one of eight on 80 GB
    boards and two on an A100-40: counted as one until placed.
    """
    if request.mig_profile:
        return counted_milli(request.mig_profile) * max(request.mig_count, 1)
    return request.count * GPU_MILLI or request.milli


def pod_resources(pod_set: PodSet) -> Resources:
    """What one pod of `pod_set` is charged: milli-GPU, CPU and memory."""
    return Resources(
        gpu_milli=gpu_milli(pod_set.gpu),
        cpu_milli=pod_set.cpu_milli or 0,
        memory_mib=pod_set.memory_mib or 0,
    )


def least_count(pod_set: PodSet) -> int:
    """Pods of the set that must run together."""
    return pod_set.count if pod_set.min_count is None else pod_set.min_count


def least_amount(spec: WorkloadSpec) -> Amount:
    """What the least of an elastic gang is charged; O(pod sets)."""
    gpu = cpu = memory = 0
    for one in spec.pod_sets:
        count = least_count(one)
        gpu += gpu_milli(one.gpu) * count
        cpu += (one.cpu_milli or 0) * count
        memory += (one.memory_mib or 0) * count
    return gpu, cpu, memory


def workload_resources(spec: WorkloadSpec) -> Resources:
    """What the whole gang is charged; O(pod sets)."""
    total = Resources()
    for pod_set in spec.pod_sets:
        total += pod_resources(pod_set).times(pod_set.count)
    return total
