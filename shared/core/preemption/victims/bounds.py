"""The least that room on a node can cost, for all nodes at once: which are worth a closer look."""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.preemption.eligibility.columns import Column
from shared.core.preemption.victims.simulated_removal import Part, Scope

FRACTION: Final = 1 << 10
"""Prices for each pod are compared as integers with this denominator."""


class Bounds:
    """Nodes with occupants that may go, in order of the least price of one further pod there.

    Where whole GPUs have one holder each, a pod costs the GPUs that it lacks, the cheapest of the
    node first, as if these could go by parts; several pods cost no less for each. Elsewhere it is
    the smallest piece that could go there, for up to `pods` pods. O(occupants) in columns.
    """

    def __init__(self, scope: Scope, part: Part, demand: PodDemand, pods: int) -> None:
        occupants, screen = scope.occupants, scope.screen
        holdings = occupants.holdings
        row, at = holdings["workload"], holdings["node"]
        mine = np.flatnonzero((at > 0) & screen.allowed[row])
        if part.codes is not None:
            inside = np.zeros(len(occupants.nodes.names), dtype=np.bool_)
            inside[part.codes] = True
            mine = mine[inside[at[mine]]]
        row, at, weight = row[mine], at[mine], holdings["weight"][mine]
        rate = screen.rate_ms[row]
        piece = np.minimum(weight, np.maximum(occupants.workloads["least"][row], 1))
        least = np.full(len(occupants.nodes.names), UNLIMITED, dtype=np.int64)
        np.minimum.at(least, at, rate * piece // GPU_MILLI)
        codes = np.flatnonzero(least < UNLIMITED)
        bound = least[codes] // pods
        self._names: list[str] = occupants.nodes.names
        if demand.gpus:
            shared = np.zeros(len(least), dtype=np.bool_)
            shared[at[holdings["gpu"][mine] % GPU_MILLI > 0]] = True
            whole = self._whole(scope, demand, codes, (rate, weight, at))
            bound = np.where(shared[codes], bound, whole)
        ranks = occupants.node_ranks(scope.cluster)
        order = np.lexsort((ranks[codes], bound))
        self._codes = codes[order]
        self._prices = bound[order] * FRACTION

    def __len__(self) -> int:
        """How many nodes there are."""
        return len(self._codes)

    def price(self, at: int) -> int:
        """The bound of the node in place `at`, with the denominator `FRACTION`."""
        return int(self._prices[at])

    def name(self, at: int) -> str:
        """The node in place `at`."""
        return self._names[int(self._codes[at])]

    def _whole(
        self, scope: Scope, demand: PodDemand, codes: Column, held: tuple[Column, Column, Column]
    ) -> Column:
        rate, weight, at = held
        if demand.gpus == 1:
            least = np.full(len(self._names), UNLIMITED, dtype=np.int64)
            np.minimum.at(least, at, rate)
            found: Column = least[codes]
            return found
        nodes = scope.cluster.nodes
        free = np.fromiter(
            (nodes[self._names[code]].free_count for code in codes.tolist()), np.int64, len(codes)
        )
        lacks = (demand.gpus - free % demand.gpus) * GPU_MILLI
        order = np.lexsort((rate, at))
        _, first = np.unique(at[order], return_index=True)
        return _cheapest_parts(rate[order], weight[order], first, lacks)


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
