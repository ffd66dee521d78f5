"""What one pod takes of its node, by the rule of Kubernetes.

Init containers run one after the other before the others, so only the largest counts; one that is
restarted always (a sidecar) runs on beside all that start after it. Amounts of the whole pod
(pod-level resources) stand in place of those of its containers. The overhead of its runtime comes
on top. Source: Kubernetes, "Pod scheduling: effective requests", KEP-753, KEP-2837, KEP-688.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from shared.core.kubernetes.quantity import MILLI, ONE, at_least
from shared.core.model.value import Value

CPU: Final = "cpu"
MEMORY: Final = "memory"
GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-"
"""Begins the names of resources that are MIG profiles."""
Amounts = Mapping[str, str]
"""Quantities by the name of their resource."""
_OF_WHOLE_PODS: Final = frozenset({CPU, MEMORY})
"""Resources that may be asked for by the pod itself."""


def mig_resource(profile: str) -> str:
    """nvidia.com/mig-1g.10gb.me of the profile 1g.10gb+me: a resource's name has no plus."""
    return MIG + profile.replace("+", ".")


def mig_profile(resource: str) -> str:
    """The profile of which `mig_resource` is the resource."""
    text = resource.removeprefix(MIG)
    size, dot, attribute = text.rpartition(".")
    return f"{size}+{attribute}" if dot and "." in size else text


class InitContainer(Value, frozen=True, kw_only=True):
    """What an init container asks for, and whether it runs on as a sidecar."""

    requests: dict[str, str]
    restarts: bool = False


class TakenResources(Value, frozen=True, kw_only=True):
    """What one or more pods take of a node."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0
    """Whole GPUs that were asked for by count."""

    def __add__(self, other: TakenResources) -> TakenResources:
        """What both take."""
        return TakenResources(
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            gpus=self.gpus + other.gpus,
        )


NOTHING: Final = TakenResources()


def taken_by(
    containers: Iterable[Amounts],
    init_containers: Iterable[InitContainer] = (),
    *,
    overhead: Amounts,
    whole_pod: Amounts,
) -> TakenResources:
    """What a pod takes; the init containers in their order.

    Raises:
        ValueError: an amount is no quantity.
    """
    mains, firsts = tuple(containers), tuple(init_containers)

    def amount(name: str, unit: Fraction) -> int:
        extra = at_least(overhead.get(name, "0"), unit)
        if name in _OF_WHOLE_PODS and name in whole_pod:
            return at_least(whole_pod[name], unit) + extra
        return _of_containers(mains, firsts, name, unit) + extra

    return TakenResources(
        cpu_milli=amount(CPU, MILLI), memory_bytes=amount(MEMORY, ONE), gpus=amount(GPU, ONE)
    )


def _of_containers(
    mains: tuple[Amounts, ...], firsts: tuple[InitContainer, ...], name: str, unit: Fraction
) -> int:
    sidecars = largest = 0
    for one in firsts:
        amount = at_least(one.requests.get(name, "0"), unit)
        if one.restarts:
            sidecars += amount
        largest = max(largest, sidecars + (0 if one.restarts else amount))
    steady = sum(at_least(one.get(name, "0"), unit) for one in mains)
    return max(steady + sidecars, largest)
