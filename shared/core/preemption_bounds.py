"""The least that room on a node can cost, for all nodes at once: which are worth a closer look."""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.demand import PodDemand
from shared.core.occupants import Column
from shared.core.preemption_leavers import Part, Scope
from shared.core.units import GPU_MILLI

FRACTION: Final = 1 << 10
"""Prices for each pod are compared as integers with this denominator."""


def lower_bounds(
    scope: Scope, part: Part, demand: PodDemand, pods: int
) -> list[tuple[int, int, str]]:
    """(least price of one further pod, rank, node) for nodes of `part` with occupants, in order.

    Where whole GPUs have one holder each, a pod costs the GPUs that it lacks, the cheapest of the
    node first, as if these could go by parts; several pods cost no less for each. Elsewhere it is
    the smallest piece that could go there, for up to `pods` pods.
    """
    occupants, screen = scope.occupants, scope.screen
    holdings = occupants.holdings
    row = holdings["workload"]
    mine = np.flatnonzero((holdings["node"] > 0) & screen.allowed[row])
    mine = mine[np.lexsort((screen.rate_ms[row[mine]], holdings["node"][mine]))]
    row, at, weight = row[mine], holdings["node"][mine], holdings["weight"][mine]
    rate = screen.rate_ms[row]
    codes, first = np.unique(at, return_index=True)
    piece = np.minimum(weight, np.maximum(occupants.workloads["least"][row], 1))
    known = np.isin(codes, part.codes)
    if not known.any():
        return []
    least = np.minimum.reduceat(rate * piece // GPU_MILLI, first)
    shared = np.maximum.reduceat(holdings["gpu"][mine] % GPU_MILLI, first) > 0
    bound = least // pods
    names = [occupants.nodes.names[code] for code in codes.tolist()]
    nodes = [scope.cluster.nodes[name] for name in names]
    if demand.gpus:
        free = np.fromiter((node.free_count for node in nodes), np.int64, len(nodes))
        lacks = (demand.gpus - free % demand.gpus) * GPU_MILLI
        bound = np.where(shared, bound, _cheapest_parts(rate, weight, first, lacks))
    ranks = np.fromiter((node.rank for node in nodes), np.int64, len(nodes))
    order = np.lexsort((ranks, bound))
    bounds = (bound * FRACTION).tolist()
    return [
        (bounds[index], nodes[index].rank, names[index]) for index in order[known[order]].tolist()
    ]


def _cheapest_parts(rate: Column, weight: Column, first: Column, lacks: Column) -> Column:
    """What `lacks` of each node cost when its holdings, in order of rate, can go by parts.

    `rate` and `weight` by holding, those of one node together from its `first` on.
    """
    weights = np.concatenate([[0], np.cumsum(weight)])
    prices = np.concatenate([[0], np.cumsum(rate * weight // GPU_MILLI)])
    last = np.append(first[1:], len(rate)) - 1
    wanted = weights[first] + lacks
    at = np.minimum(np.searchsorted(weights, wanted, side="right") - 1, last)
    rest = np.minimum(wanted, weights[last + 1]) - weights[at]
    found: Column = prices[at] - prices[first] + rate[at] * rest // GPU_MILLI
    return found
