"""Which of the places that fit is best: small pure rules, in one file, to be read and changed.

Between nodes (the free lists answer in this order, see core/placement/search.py):
1. the preferred product, then nodes without a soft taint;
2. the fewest free whole GPUs that suffice: broken nodes fill up, whole ones survive for gangs;
3. CPU that stays beside the GPUs left free, in the node's own proportion, then the tightest CPU;
4. a fixed seeded rank.
Between GPUs of a node: the best links, then one NUMA domain, then what is left for later.
"""

from __future__ import annotations

from shared.core.cluster.node_state import NodeState


def cpu_to_leave_milli(free_gpus_after: int, cpu_per_gpu_milli: int) -> int:
    """CPU a node should keep for the GPUs that stay free on it."""
    return free_gpus_after * cpu_per_gpu_milli


def pick_gpus(node: NodeState, count: int, *, aligned: bool = False) -> list[int]:
    """`count` free whole GPUs, which the node has: those with the best links between them.

    `aligned`: all of one NUMA domain, which one of its domains has. See
    core/cluster/node_links.py.
    """
    if node.links is None:
        return _fewest_domains(node, count)
    mask = node.links.best(node.free_mask, count, aligned=aligned)
    return [index for index in range(mask.bit_length()) if mask >> index & 1]


def _fewest_domains(node: NodeState, count: int) -> list[int]:
    """For machines with more GPUs than a table can hold: the tightest NUMA domain that suffices.

    Otherwise from the domains with most free ones, so that the fewest domains are touched.
    """
    domains = sorted(_free_by_numa(node), key=lambda free: (len(free), free))
    for free in domains:
        if len(free) >= count:
            return free[:count]
    picked: list[int] = []
    for free in reversed(domains):
        picked += free[: count - len(picked)]
    return sorted(picked)


def _free_by_numa(node: NodeState) -> list[list[int]]:
    domains: dict[int, list[int]] = {}
    for index, use in node.uses.items():
        if use.gpu is not None and node.free_mask >> index & 1:
            domains.setdefault(use.gpu.numa, []).append(index)
    return [sorted(free) for free in domains.values()]
