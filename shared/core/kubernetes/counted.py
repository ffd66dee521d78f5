"""The GPUs of a node whose device plugin tells their number alone.

Which device a pod gets is the kubelet's choice, so an index in the ledger is a place in the count.
Places that nobody can have (devices that are unhealthy, or that pods of others hold) are marked as
unhealthy: the last ones that no pod of ours holds. So the number of free places is true.
"""

from __future__ import annotations

from shared.core.model import Gpu


def counted_gpus(
    *, capacity: int, allocatable: int, others: int, held: frozenset[int], memory_mib: int
) -> tuple[Gpu, ...]:
    """As many as there are; `others`: asked for by pods that are not ours, `held`: by ours."""
    unusable = max(0, capacity - allocatable) + others
    free = [index for index in reversed(range(capacity)) if index not in held]
    out = frozenset(free[:unusable])
    return tuple(
        Gpu(index=index, uuid="", memory_mib=memory_mib, healthy=index not in out)
        for index in range(capacity)
    )
