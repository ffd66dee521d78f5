"""What runs on which GPU, by the pods of the cluster: makes the reported use plausible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared.ports.cluster import Pod
from shared.simulator.machine import NOTHING_HELD, Occupancy

Occupied = dict[int, Occupancy]


def occupancy(pods: Iterable[Pod], use: Mapping[str, int] | None = None) -> Mapping[str, Occupied]:
    """By node and GPU index, what running pods hold. O(pods).

    `use` is how much some workloads make of it, in per cent; all others make use of everything.
    """
    wanted = use or {}
    nodes: dict[str, Occupied] = {}
    for pod in pods:
        if pod.phase != "Running":
            continue
        percent = wanted.get(pod.workload_id, 100)
        gpus = nodes.setdefault(pod.node, {})
        for share in pod.shares:
            held = gpus.get(share.index, NOTHING_HELD)
            gpus[share.index] = Occupancy(
                held.gpu_milli + share.milli,
                held.memory_mib + share.memory_mib,
                held.busy_milli + share.milli * percent // 100,
            )
    return nodes
