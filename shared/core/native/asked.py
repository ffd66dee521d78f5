"""The GPUs that a pod asks for by a resource's name: whole ones, or instances of a profile."""

from __future__ import annotations

from typing import Final

from shared.core.kubernetes.quantity import ONE, at_least
from shared.core.model.nouns import GpuRequest
from shared.core.native.pod import NativePod

MIG: Final = "nvidia.com/mig-"


def gpu_request(pod: NativePod) -> GpuRequest:
    """Of a pod without a problem: one of its containers asks, in one form. O(1)."""
    for one in pod.gpus:
        for name, amount in one.amounts.items():
            if name.startswith(MIG):
                profile = profile_of(name)
                return GpuRequest(mig_profile=profile, mig_count=at_least(amount, ONE))
    return GpuRequest(count=pod.taken.gpus)


def devices_of(pod: NativePod) -> int:
    """How many devices it gets, each a whole GPU or an instance."""
    asked = gpu_request(pod)
    return asked.count or asked.mig_count


def profile_of(resource: str) -> str:
    """The profile 1g.10gb+me of nvidia.com/mig-1g.10gb.me: a resource's name has no plus."""
    text = resource.removeprefix(MIG)
    size, dot, attribute = text.rpartition(".")
    return f"{size}+{attribute}" if dot and "." in size else text
