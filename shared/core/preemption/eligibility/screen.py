"""What may go and what it costs, for all occupants of a flavor at once.

What can be said of each by itself is said here, in columns, and in sparing.py; what depends on
which else goes (nominal quota, shares, loss budgets) is asked again of the judge whenever one is
taken.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from shared.core.model.amounts import Amount
from shared.core.model.units import GPU_MILLI
from shared.core.preemption.eligibility.columns import Column
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.rules import EligibilityJudge
from shared.core.preemption.eligibility.sparing import Mask, Sparing
from shared.core.quota.tree import QuotaNode


class Screen:
    """By row of the occupants: `allowed` to go, at a cost of `rate_ms` for each GPU."""

    def __init__(self, occupants: Occupants, judge: EligibilityJudge) -> None:
        self._occupants = occupants
        self._judge = judge
        rows, rules = occupants.workloads, judge.rules
        lost_ms = occupants.lost_ms(judge.now_ms)
        sparing = Sparing(occupants, judge, lost_ms)
        self.allowed = sparing.allowed
        self.spared_gpu_milli = sparing.spared_gpu_milli
        self.retry_at_ms = sparing.retry_at_ms
        """When the first of those spared for a time may go; 0 if there is none."""
        priority_ms = rules.priority_ms * np.maximum(rows["priority"], 0)
        flat_ms = rules.eviction_gpu_ms * GPU_MILLI // np.maximum(rows["weight"], 1)
        # What was evicted lately costs an eviction more: others go first.
        cooling = sparing.cooldown_until_ms() > judge.now_ms
        self.rate_ms: Column = lost_ms + priority_ms + np.where(cooling, 2 * flat_ms, flat_ms)
        if rules.whole_ms:
            self.rate_ms += rules.whole_ms * self._freed_beside() // GPU_MILLI

    def _freed_beside(self) -> Column:
        """By row: what could be freed on its node, milli-GPU, beside what a pod asks for."""
        asked = self._judge.charge[0] // max(self._judge.preemptor.pods, 1)
        holdings, found = self._occupants.holdings, np.zeros_like(self.rate_ms)
        mine = (holdings["node"] > 0) & self.allowed[holdings["workload"]]
        rows, nodes = holdings["workload"][mine], holdings["node"][mine]
        by_node = np.bincount(nodes, holdings["gpu"][mine]).astype(np.int64)
        np.maximum.at(found, rows, by_node[nodes] - asked)
        return found

    @property
    def gpu_milli(self) -> int:
        """What all that may go hold."""
        return int(self._occupants.workloads["gpu"][self.allowed].sum())

    def ids(self) -> list[str]:
        """All that may go, the cheapest for each GPU first."""
        rows = np.flatnonzero(self.allowed)
        named = [
            (rate, self._occupants.ids[row])
            for rate, row in zip(self.rate_ms[rows].tolist(), rows.tolist(), strict=True)
        ]
        return [name for _, name in sorted(named)]

    def below(self, node: QuotaNode) -> Mask:
        """Those charged to `node` of the quota tree, directly or further down."""
        names, tree = self._occupants.queues.names, self._judge.standing.tree
        codes = [
            code
            for code, name in enumerate(names)
            if name in tree.nodes and node in tree.nodes[name].path()
        ]
        return np.isin(self._occupants.workloads["queue"], codes)

    def cheapest_below(
        self, node: QuotaNode, lacks: Amount, excluded: Collection[str]
    ) -> str | None:
        """What frees most of what `node` lacks for its cost; None if nothing is left."""
        rows = self._occupants.workloads
        unit = next(at for at, lack in enumerate(lacks) if lack > 0)
        frees = np.minimum(rows[("gpu", "cpu", "memory")[unit]], lacks[unit])
        mask = self.allowed & self.below(node) & (frees > 0)
        mask[[self._occupants.row_of[name] for name in excluded]] = False
        if not mask.any():
            return None
        price = self.rate_ms * rows["weight"] / np.maximum(frees, 1)
        found = np.flatnonzero(mask & (price == price[mask].min()))
        return min(self._occupants.ids[row] for row in found.tolist())

    def gpus_by_node(self) -> dict[str, int]:
        """How many GPUs of each node, at most, those that may go leave free."""
        holdings, names = self._occupants.holdings, self._occupants.nodes.names
        mine = (holdings["node"] > 0) & self.allowed[holdings["workload"]]
        held = np.zeros(len(names), dtype=np.int64)
        np.add.at(held, holdings["node"][mine], holdings["gpus"][mine])
        codes = np.flatnonzero(held)
        return {names[code]: int(held[code]) for code in codes.tolist()}

    def on_several_nodes(self) -> bool:
        """Whether any that may go has pods on more than one node."""
        rows = self._occupants.holdings["workload"][self._occupants.holdings["node"] > 0]
        return bool((np.bincount(rows[self.allowed[rows]]) > 1).any())

    def least_rate_ms(self, nodes: Column | None) -> int:
        """The least cost per GPU of what may go on these nodes (their numbers in the columns)."""
        if nodes is None:
            return 0
        holdings = self._occupants.holdings
        mine = self.allowed[holdings["workload"]] & np.isin(holdings["node"], nodes)
        return int(self.rate_ms[holdings["workload"][mine]].min()) if mine.any() else 0
