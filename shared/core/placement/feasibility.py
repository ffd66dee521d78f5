"""May a pod run on a kind of node at all? One small function for each filter, in order.

Filters look at what nodes are, never at what is free on them. The answer holds for a whole kind of
node, so it is worked out once for each (flavor, choice, form of request) and kept until the
node classes change.

Taints. A node with taints takes only pods that may ignore all of them:
- `nvidia.com/gpu` keeps CPU work off GPU nodes: pods that hold any part of a GPU ignore it;
- a taint with a pool as its value (`dedicated=research:NoSchedule`) is ignored by workloads that
  name this pool in `gpu_choice.node_pool`;
- a taint that the pod set names in its `tolerations` is ignored by its pods;
- `PreferNoSchedule` keeps no pod away: such nodes are merely tried last;
- the taint of a node on which nothing starts (core/nodes/shunning.py) is a filter of its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.choice_filters import lacking
from shared.core.cluster.node_class import NodeClass, NodeClassKey
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import GpuChoice
from shared.core.model.taints import GPU_TAINT, SHUNNED, SOFT_EFFECT, tolerates
from shared.core.scoring import Cluster

PLANS_MAX: Final = 4096
"""Answers kept; more different choices than that are worked out again."""


class Filter(StrEnum):
    """Why a kind of node is out of the question; the value names it in evidence."""

    FLAVOR = "flavor"
    POOL = "pool"
    TAINT = "taint"
    NO_GPU = "without_gpu"
    PRODUCT = "product"
    GPU_MEMORY = "gpu_memory"
    DRIVER = "driver"
    CUDA = "cuda"
    MIG_PROFILE = "mig_profile"
    SHUNNED = "shunned"
    PINNED = "kept_for_others"


FILTER_OF: Final = {
    "products": Filter.PRODUCT,
    "min_memory_mib": Filter.GPU_MEMORY,
    "min_driver": Filter.DRIVER,
    "cuda": Filter.CUDA,
}
"""By field of `gpu_choice` (core/cluster/choice_filters.py)."""

Tiers = tuple[tuple[CapacityIndex, ...], ...]
"""Kinds that pass, the preferred ones first; node classes of one tier are equally welcome."""


def permitted(cluster: Cluster, gang: Gang, demand: PodDemand, flavor: str) -> Tiers:
    """Kinds of `flavor` on which a pod of `demand` may run, by preference. O(1) when known."""
    key = (
        flavor, gang.choice_key, demand.wants_gpu, demand.profile, demand.tolerations, gang.pins,
    )  # fmt: skip
    tiers = cluster.plans.get(key)
    if tiers is None:
        if len(cluster.plans) >= PLANS_MAX:
            cluster.plans.clear()
        tiers = cluster.plans[key] = _tiers(cluster, gang, demand, flavor)
    return tiers


def cheapest(tiers: Tiers, profile: str) -> Tiers:
    """Node classes on which an instance of `profile` is charged least; "1g.10gb" has two."""
    least = min(
        (node_class.mig_milli(profile) for node_classes in tiers for node_class in node_classes),
        default=0,
    )
    kept = (
        tuple(node_class for node_class in node_classes if node_class.mig_milli(profile) == least)
        for node_classes in tiers
    )
    return tuple(node_classes for node_classes in kept if node_classes)


def obstacle(
    key: NodeClassKey, choice: GpuChoice, demand: PodDemand, flavor: str
) -> Filter | None:
    """The first filter that keeps `demand` off nodes like `key`, without its MIG profile."""
    if key.flavor != flavor:
        return Filter.FLAVOR
    if choice.node_pool and key.pool != choice.node_pool:
        return Filter.POOL
    if not all(_tolerated(taint, choice, demand) for taint in key.taints):
        return Filter.TAINT
    if not demand.wants_gpu:
        return None
    return _gpu_obstacle(key, choice)


def node_class_obstacle(
    node_class: NodeClass, gang: Gang, demand: PodDemand, flavor: str
) -> Filter | None:
    """The first filter that keeps `demand` off `node_class`; None if it may run there."""
    found = obstacle(node_class.key, gang.choice, demand, flavor)
    if found is None and demand.profile:
        table = node_class.table
        if table is None or demand.profile not in table.profiles:
            return Filter.MIG_PROFILE
    if found is None and SHUNNED in node_class.key.taints:
        return Filter.SHUNNED
    if found is None and node_class.key.pin and node_class.key.pin not in gang.pins:
        return Filter.PINNED
    return found


def _gpu_obstacle(key: NodeClassKey, choice: GpuChoice) -> Filter | None:
    if not key.gpus:
        return Filter.NO_GPU
    lacked = lacking(choice, key)
    return FILTER_OF[lacked.field] if lacked is not None else None


def _tolerated(taint: str, choice: GpuChoice, demand: PodDemand) -> bool:
    body, _, effect = taint.partition(":")
    name, _, value = body.partition("=")
    if effect == SOFT_EFFECT or taint == SHUNNED:
        return True
    if name == GPU_TAINT and demand.wants_gpu:
        return True
    if choice.node_pool and value == choice.node_pool:
        return True
    return any(tolerates(one, taint) for one in demand.tolerations)


def _tiers(cluster: Cluster, gang: Gang, demand: PodDemand, flavor: str) -> Tiers:
    tiers: dict[tuple[bool, int], list[CapacityIndex]] = {}
    for key in sorted(cluster.node_classes):
        node_class = cluster.node_classes[key]
        if node_class_obstacle(node_class, gang, demand, flavor) is None:
            soft = any(taint.endswith(f":{SOFT_EFFECT}") for taint in key.taints)
            weight = gang.choice.preferred_products.get(key.product, 0)
            tiers.setdefault((soft, -weight), []).append(node_class)
    return tuple(tuple(tiers[rank]) for rank in sorted(tiers))
