"""What an agent sees of the GPUs of its node, and what cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from shared.core.model.nouns import Gpu
from shared.core.model.value import Value

GPUS_MAX: Final = 256
CHARACTERS_MAX: Final = 256
"""Of a UUID, an address or a reason."""


class ObservedGpu(Value, frozen=True, kw_only=True):
    """One GPU, as the driver knows it."""

    index: int
    """The driver's index, from 0."""
    uuid: str
    """UUID of the device: by it the GPU is found again in what the API server tells."""
    numa: int = 0
    """NUMA node of the processor beside it; 0 where it is not known."""
    pci: str = ""
    """Address on the PCI bus."""
    mig: bool = False
    """Whether it is in MIG mode: a device plugin does not count it as a whole GPU."""
    healthy: bool = True
    """False keeps new work away."""
    reason: str = ""
    """What is wrong, in the agent's words; empty: nothing."""


class Observation(Value, frozen=True, kw_only=True):
    """All GPUs of a node that its agent sees, in order of index, and their links."""

    gpus: tuple[ObservedGpu, ...]
    links: str = ""


def observed(gpus: Sequence[Gpu], reasons: Mapping[int, str]) -> tuple[ObservedGpu, ...]:
    """What an agent that reads `gpus` tells of them; `reasons` by index, of those that are ill."""
    return tuple(
        ObservedGpu(
            index=one.index,
            uuid=one.uuid,
            numa=one.numa,
            pci=one.pci,
            mig=one.mig,
            healthy=one.healthy,
            reason="" if one.healthy else reasons.get(one.index, "")[:CHARACTERS_MAX],
        )
        for one in sorted(gpus, key=lambda gpu: gpu.index)
    )


def problem_of(gpus: Sequence[ObservedGpu], links: str) -> str:
    """The first broken rule, with the field; empty when there is none. O(GPUs)."""
    if len(gpus) > GPUS_MAX:
        return f"gpus: {len(gpus)} are given, at most {GPUS_MAX} are allowed"
    if any(one.index <= before.index for before, one in pairwise(gpus)):
        return "gpus: not in order of index, each once"
    if len({one.uuid for one in gpus}) < len(gpus):
        return "gpus: a UUID is there twice"
    for at, one in enumerate(gpus):
        problem = _of_gpu(one)
        if problem:
            return f"gpus[{at}].{problem}"
    pairs = len(gpus) * (len(gpus) - 1) // 2
    if len(links) not in (0, 1, pairs):
        return f"links: {len(links)} characters, and there are {pairs} pairs of GPUs"
    return ""


def _of_gpu(gpu: ObservedGpu) -> str:
    if gpu.index < 0 or gpu.numa < 0:
        return "index, numa: must not be negative"
    if not gpu.uuid:
        return "uuid: must not be empty"
    if max(len(gpu.uuid), len(gpu.pci), len(gpu.reason)) > CHARACTERS_MAX:
        return f"uuid, pci, reason: more than {CHARACTERS_MAX} characters"
    return ""
