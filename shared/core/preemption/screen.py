"""Who may go and what it costs, for all occupants of a flavor at once.

What can be said of each by itself is said here, in columns; what depends on who else goes
(nominal quota, shares, loss budgets) is asked again of the judge whenever one is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.amounts import Amount
from shared.core.preemption.columns import Column
from shared.core.preemption.occupants import Occupants
from shared.core.preemption.plan import Obstacle, Rule
from shared.core.preemption.rules import Judge, policy_of
from shared.core.quota.tree import QuotaNode
from shared.core.units import GPU_MILLI, UNLIMITED

Mask = NDArray[np.bool_]
OPEN: Final = 1
PROTECTED: Final = 2


class Screen:
    """By row of the occupants: `allowed` to go, at a cost of `rate_ms` for each GPU."""

    def __init__(self, occupants: Occupants, judge: Judge) -> None:
        rows = occupants.workloads
        self._occupants = occupants
        self._judge = judge
        self.lost_ms = occupants.lost_ms(judge.now_ms)
        rules = judge.rules
        priority_ms = rules.priority_ms * np.maximum(rows["priority"], 0)
        flat_ms = rules.eviction_gpu_ms * GPU_MILLI // np.maximum(rows["weight"], 1)
        self.rate_ms: Column = self.lost_ms + priority_ms + flat_ms
        self.spared_gpu_milli: dict[Obstacle, int] = {}
        self._reclaimed: list[int] = []
        """Numbers of the queues that give back what others own."""
        self.retry_at_ms = 0
        """When the first of those spared for a time may go; 0 if there is none."""
        here = rows["flavor"] == occupants.flavors.find(judge.flavor)
        self.allowed: Mask = here & (rows["open"] > 0)
        for obstacle, kept in self._obstacles():
            mask = self.allowed & kept
            if mask.any():
                self.spared_gpu_milli[obstacle] = self.spared_gpu_milli.get(obstacle, 0) + int(
                    rows["gpu"][mask].sum()
                )
                self.allowed &= ~mask
        self._spare_the_cooling()
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
        """Who frees most of what `node` lacks for its cost; None if nobody is left."""
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
        """How many GPUs of each node, at most, those who may go leave free."""
        holdings, names = self._occupants.holdings, self._occupants.nodes.names
        mine = (holdings["node"] > 0) & self.allowed[holdings["workload"]]
        held = np.zeros(len(names), dtype=np.int64)
        np.add.at(held, holdings["node"][mine], holdings["gpus"][mine])
        codes = np.flatnonzero(held)
        return {names[code]: int(held[code]) for code in codes.tolist()}

    def on_several_nodes(self) -> bool:
        """Whether anyone who may go has pods on more than one node."""
        rows = self._occupants.holdings["workload"][self._occupants.holdings["node"] > 0]
        return bool((np.bincount(rows[self.allowed[rows]]) > 1).any())

    def least_rate_ms(self, nodes: Column | None) -> int:
        """The least cost of a GPU of anyone on these nodes (their numbers in the columns)."""
        if nodes is None:
            return 0
        holdings = self._occupants.holdings
        mine = self.allowed[holdings["workload"]] & np.isin(holdings["node"], nodes)
        return int(self.rate_ms[holdings["workload"][mine]].min()) if mine.any() else 0

    def _obstacles(self) -> Iterator[tuple[Obstacle, Mask]]:
        """Each reason to stay, with those whom it keeps; the first that holds counts."""
        rows, rules = self._occupants.workloads, self._judge.rules
        yield Obstacle.PROTECTED, rows["open"] == PROTECTED
        yield Obstacle.NOT_EVICTABLE, rows["open"] != OPEN
        yield Obstacle.NOT_EVICTABLE, self._named((self._judge.preemptor.id,))
        yield from self._by_queue()
        yield Obstacle.PROMISED, self._named(rules.promised)
        until_ms = self._min_runtime_until_ms()
        yield Obstacle.MIN_RUNTIME, self._later(until_ms)
        until_ms = np.where(self._gives_back(), 0, self._cooldown_until_ms())
        yield Obstacle.COOLDOWN, self._later(until_ms)
        yield Obstacle.LOSS_BUDGET, self._beyond_budget()

    def _cooldown_until_ms(self) -> Column:
        found = np.zeros(self._occupants.workloads.used, dtype=np.int64)
        for name, at_ms in self._judge.rules.cooldown_until_ms.items():
            row = self._occupants.row_of.get(name)
            if row is not None:
                found[row] = at_ms
        return found

    def _gives_back(self) -> Mask:
        """Who holds what others own: it is owed now, so no cooldown keeps it (docs/adr/0035)."""
        return np.isin(self._occupants.workloads["queue"], self._reclaimed)

    def _spare_the_cooling(self) -> None:
        """Who was evicted lately costs an eviction more: others go first."""
        cooling = self._cooldown_until_ms() > self._judge.now_ms
        if cooling.any():
            weight = np.maximum(self._occupants.workloads["weight"], 1)
            flat_ms = self._judge.rules.eviction_gpu_ms * GPU_MILLI // weight
            self.rate_ms += np.where(cooling, flat_ms, 0)

    def _by_queue(self) -> Iterator[tuple[Obstacle, Mask]]:
        """On what terms each queue may lose workloads: asked once for each, then gathered."""
        rows, names = self._occupants.workloads, self._occupants.queues.names
        queue = rows["queue"]
        refused: dict[Obstacle, list[int]] = {}
        below = np.full(len(names), UNLIMITED, dtype=np.int64)
        most = below.copy()
        for code in np.unique(queue[self.allowed]).tolist():
            terms = self._judge.terms(names[code])
            if terms.rule is None:
                refused.setdefault(terms.obstacle, []).append(code)
                continue
            if terms.rule is Rule.RECLAIM:
                self._reclaimed.append(code)
            if terms.below_priority:
                below[code] = self._judge.preemptor.priority
            if terms.nodes and not self._judge.may_straddle(terms.rule):
                most[code] = min(self._gpu_milli_max(node) for node in terms.nodes)
        for obstacle, codes in refused.items():
            yield obstacle, np.isin(queue, codes)
        yield Obstacle.PRIORITY, rows["priority"] >= below[queue]
        yield Obstacle.NOMINAL, np.minimum(rows["gpu"], rows["least"]) > most[queue]

    def _gpu_milli_max(self, node: QuotaNode) -> int:
        """The largest piece that leaves `node` its nominal quota, when GPUs decide."""
        above = self._judge.standing.above(node)
        return UNLIMITED if above[1] or above[2] else above[0]

    def _named(self, names: Collection[str]) -> Mask:
        mask = np.zeros(self._occupants.workloads.used, dtype=np.bool_)
        row_of = self._occupants.row_of
        mask[[row_of[name] for name in names if name in row_of]] = True
        return mask

    def _later(self, until_ms: Column) -> Mask:
        later = until_ms > self._judge.now_ms
        mine = later & self.allowed
        if mine.any():
            first = int(until_ms[mine].min())
            self.retry_at_ms = min(self.retry_at_ms or first, first)
        return later

    def _min_runtime_until_ms(self) -> Column:
        queues = self._occupants.queues
        least_ms = np.zeros(len(queues.names), dtype=np.int64)
        rows = self._occupants.workloads
        for code in np.unique(rows["queue"][self.allowed]).tolist():
            node = self._judge.standing.tree.node(queues.names[code])
            least_ms[code] = policy_of(node).min_runtime_seconds * 1000
        return rows["start"] + least_ms[rows["queue"]]

    def _beyond_budget(self) -> Mask:
        rows, left = self._occupants.workloads, self._judge.rules.loss_left_gpu_ms
        team_left = np.full(len(self._occupants.teams.names), UNLIMITED, dtype=np.int64)
        for team, left_gpu_ms in left.items():
            code = self._occupants.teams.find(team)
            if code >= 0:
                team_left[code] = max(left_gpu_ms, 0)
        lost = self.lost_ms * np.minimum(rows["gpu"], rows["least"]) // GPU_MILLI
        return lost > team_left[rows["team"]]
