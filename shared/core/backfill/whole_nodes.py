"""A gang as equal parts, and how many of them a node holds when nothing else is on it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Node, Spread
from shared.core.model.units import pods_within


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeNodesNeed:
    """A gang as equal parts: `pods` of `demand`, at most one a node if `apart`."""

    demand: PodDemand
    pods: int
    apart: bool


def need_of(gang: Gang) -> WholeNodesNeed | None:
    """Its pods with whole GPUs, counted in the largest of them; None without any.

    At least the least of an elastic gang. Slices and a leader are left to the placement itself.
    """
    demands = [demand for demand in gang.demands if demand.gpus]
    if not demands:
        return None
    largest = max(demands, key=lambda demand: demand.gpus)
    pods = sum(-(-demand.min_count // (largest.gpus // demand.gpus)) for demand in demands)
    return WholeNodesNeed(demand=largest, pods=pods, apart=gang.spread is Spread.REQUIRED)


def whole_gpus(node: Node) -> int:
    """GPUs of a node that may be given away whole."""
    return sum(gpu.healthy and not gpu.mig for gpu in node.gpus)


def pods_when_empty(node: Node, gpus: int, need: WholeNodesNeed) -> int:
    """Parts that a node with so many whole `gpus` holds when nothing else is on it."""
    demand = need.demand
    pods = gpus // demand.gpus
    pods = pods_within(pods, node.cpu_milli, demand.cpu_milli, node.memory_mib, demand.memory_mib)
    return min(pods, 1) if need.apart else pods
