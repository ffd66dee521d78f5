"""What runs on which GPU, by the pods of the cluster: makes the reported use plausible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.ports.cluster import Pod

Occupied = dict[int, tuple[int, int]]


def occupancy(pods: Iterable[Pod]) -> Mapping[str, Occupied]:
    """By node and GPU index: (milli-GPU, MiB) held by running pods. O(pods)."""
    nodes: dict[str, Occupied] = {}
    for pod in pods:
        if pod.phase != "Running":
            continue
        gpus = nodes.setdefault(pod.node, {})
        for share in pod.shares:
            milli, memory_mib = gpus.get(share.index, (0, 0))
            gpus[share.index] = (milli + share.milli, memory_mib + share.memory_mib)
    return nodes
