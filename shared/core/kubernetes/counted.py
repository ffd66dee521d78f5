"""The GPUs of a node with a device plugin that tells their number alone.

Which device a pod gets is the kubelet's choice, so an index in the ledger is a place in the count.
Places that no pod can have (devices that are unhealthy, or that pods of others hold) are marked as
unhealthy: those that are known to be so, and else the last ones that no pod of ours holds. So the
number of free places is true.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.kubernetes.observed import ObservedGpu
from shared.core.model.nouns import Gpu


def counted_gpus(
    *,
    capacity: int,
    allocatable: int,
    others: int,
    held: frozenset[int],
    memory_mib: int,
    seen: Sequence[ObservedGpu] = (),
    given: frozenset[int] = frozenset(),
) -> tuple[Gpu, ...]:
    """As many as there are; `others`: asked for by pods that are not ours, `held`: by ours.

    `seen`: what the node's agent sees of each place, or nothing. `given`: the places of `others`
    that are known.
    """
    ill = frozenset(place for place, one in enumerate(seen) if not one.healthy)
    known = ill | given
    unusable = max(0, capacity - allocatable, len(ill)) + others
    free = [index for index in reversed(range(capacity)) if index not in held | known]
    out = known.union(free[: max(0, unusable - len(known))])
    return tuple(
        Gpu(
            index=index,
            uuid=seen[index].uuid if seen else "",
            memory_mib=memory_mib,
            numa=seen[index].numa if seen else 0,
            pci=seen[index].pci if seen else "",
            healthy=index not in out,
        )
        for index in range(capacity)
    )
