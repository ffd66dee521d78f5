"""Why a namespace admits no more pods of a group: its ResourceQuotas, as their status tells.

Only the API server decides, when a controller creates a pod; what is said here is for people.
A quota that counts some pods alone (scopes) is not judged.
Source: Kubernetes, "Resource Quotas".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shared.core.kubernetes.quantity import MILLI, ONE, at_least, at_most
from shared.core.kubernetes.requests import CPU, MEMORY, TakenResources
from shared.core.model.value import Value, field

_PODS: Final = frozenset(("pods", "count/pods"))
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."


class NamespaceQuota(Value, frozen=True, kw_only=True):
    """A ResourceQuota with what its namespace may have and has."""

    namespace: str
    name: str
    hard: dict[str, str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)


def full_for(
    pod: str,
    taken: TakenResources,
    devices: Mapping[str, str],
    quotas: Iterable[NamespaceQuota],
) -> str:
    """Which quota admits no further pod like this one, and what to do; empty: none of these.

    `devices`: amounts by the name of their resource. O(quotas x resources).
    """
    for quota in quotas:
        for resource, hard in sorted(quota.hard.items()):
            used, more = quota.used.get(resource, "0"), _asked(taken, devices, resource)
            if more and at_least(used, MILLI) + more > at_most(hard, MILLI):
                return (
                    f"ResourceQuota {quota.name} of namespace {quota.namespace} admits no further"
                    f" pod like {pod}: {resource} has hard {hard}, used {used}. Next: raise"
                    " it, or end work of the namespace"
                )
    return ""


def _asked(taken: TakenResources, devices: Mapping[str, str], resource: str) -> int:
    """In thousandths; 0: a pod like this needs none, or nothing is known of it.

    Limits of a pod are taken to be what it requests: they are at least that.
    """
    if resource in _PODS:
        return 1_000
    name = resource.removeprefix(_REQUESTS)
    if name in (CPU, f"{_LIMITS}{CPU}"):
        return taken.cpu_milli
    if name in (MEMORY, f"{_LIMITS}{MEMORY}"):
        return 1_000 * taken.memory_bytes
    return 1_000 * at_least(devices.get(name, "0"), ONE)
