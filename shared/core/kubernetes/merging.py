"""What an agent sees of GPUs, added to what the API server tells of them (docs/adr/0075).

By UUID where ResourceSlices name the GPUs; where a device plugin counts them, place i is the i-th
GPU of the agent that is not in MIG mode. What contradicts the API server is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from shared.core.kubernetes.observed import Observation, ObservedGpu
from shared.core.model.nouns import Gpu
from shared.core.model.value import replace
from shared.core.model.wording import count

UNLINKED: Final = "S"
"""Stands for the links of an index that no GPU has: no pod is ever given it."""
NO_REASON: Final = "its node agent calls it unhealthy"


def whole(seen: Observation) -> tuple[ObservedGpu, ...]:
    """Those that a device plugin counts: not in MIG mode."""
    return tuple(one for one in seen.gpus if not one.mig)


def problem_with_count(seen: Observation, capacity: int) -> str:
    """Why it cannot be what a device plugin counts, with field, value and rule; empty: it can."""
    gpus = len(whole(seen))
    if gpus == capacity:
        return ""
    return (
        f"gpus: {count(gpus, 'GPU')} that {'is' if gpus == 1 else 'are'} not in MIG mode,"
        f" and the device plugin counts {capacity} (capacity nvidia.com/gpu of the Node)"
    )


def problem_with_slices(seen: Observation, gpus: Sequence[Gpu]) -> str:
    """Why it cannot be what ResourceSlices name, with field, value and rule; empty: it can."""
    known = {gpu.uuid for gpu in gpus}
    for at, one in enumerate(seen.gpus):
        if one.uuid not in known:
            return f"gpus[{at}].uuid: {one.uuid} is in no ResourceSlice of the node"
    if len(seen.gpus) != len(gpus):
        return (
            f"gpus: {count(len(seen.gpus), 'GPU')},"
            f" and the ResourceSlices of the node have {len(gpus)}"
        )
    return ""


def joined(gpus: Sequence[Gpu], seen: Observation) -> tuple[Gpu, ...]:
    """GPUs of slices with what the agent adds; both must call one healthy."""
    by_uuid = {one.uuid: one for one in seen.gpus}
    return tuple(
        replace(
            gpu,
            numa=by_uuid[gpu.uuid].numa,
            pci=gpu.pci or by_uuid[gpu.uuid].pci,
            healthy=gpu.healthy and by_uuid[gpu.uuid].healthy,
        )
        for gpu in gpus
    )


def links_of(gpus: Sequence[Gpu], seen: Observation) -> str:
    """The links by the indexes that the node has (cluster/node_links.py). O(indexes squared)."""
    if len(seen.links) <= 1:
        return seen.links
    position = {one.uuid: at for at, one in enumerate(seen.gpus)}
    at = {gpu.index: position[gpu.uuid] for gpu in gpus}
    size = max(at, default=-1) + 1
    return "".join(
        _link(seen, at, low, high) for low in range(size) for high in range(low + 1, size)
    )


def _link(seen: Observation, at: Mapping[int, int], low: int, high: int) -> str:
    if low not in at or high not in at:
        return UNLINKED
    one, other = sorted((at[low], at[high]))
    row = one * (2 * len(seen.gpus) - one - 1) // 2
    return seen.links[row + other - one - 1]


def ill(gpus: Sequence[Gpu], seen: Observation) -> dict[int, str]:
    """Why the agent calls GPUs unhealthy, by the index that the node has."""
    reasons = {one.uuid: one.reason or NO_REASON for one in seen.gpus if not one.healthy}
    return {gpu.index: reasons[gpu.uuid] for gpu in gpus if gpu.uuid in reasons}
