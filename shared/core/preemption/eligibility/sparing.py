"""What stays, and why: for all occupants of a flavor at once, before anything has gone.

Asked in the order in which reasons are told; what each keeps is the later ones' no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.preemption.eligibility.columns import Column
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.plan import Obstacle, Rule
from shared.core.preemption.eligibility.rules import EligibilityJudge, policy_of
from shared.core.quota.tree import QuotaNode

Mask = NDArray[np.bool_]
OPEN: Final = 1
PROTECTED: Final = 2


class Sparing:
    """By row of the occupants: `allowed` to go by all that can be said of each by itself."""

    def __init__(self, occupants: Occupants, judge: EligibilityJudge, lost_ms: Column) -> None:
        self._occupants = occupants
        self._judge = judge
        self._lost_ms = lost_ms
        self._reclaimed: list[int] = []
        """Numbers of the queues that give back what others own."""
        self.spared_gpu_milli: dict[Obstacle, int] = {}
        self.retry_at_ms = 0
        """When the first of those spared for a time may go; 0 if there is none."""
        rows = occupants.workloads
        here = rows["flavor"] == occupants.flavors.find(judge.flavor)
        self.allowed: Mask = here & (rows["open"] > 0)
        for obstacle, kept in self._obstacles():
            mask = self.allowed & kept
            if mask.any():
                self.spared_gpu_milli[obstacle] = self.spared_gpu_milli.get(obstacle, 0) + int(
                    rows["gpu"][mask].sum()
                )
                self.allowed &= ~mask

    def cooldown_until_ms(self) -> Column:
        """By row: until when it is spared for having been evicted lately; 0 for not."""
        found = np.zeros(self._occupants.workloads.used, dtype=np.int64)
        for name, at_ms in self._judge.rules.cooldown_until_ms.items():
            row = self._occupants.row_of.get(name)
            if row is not None:
                found[row] = at_ms
        return found

    def _obstacles(self) -> Iterator[tuple[Obstacle, Mask]]:
        """Each reason to stay, with those that it keeps; the first that holds counts."""
        rows, rules = self._occupants.workloads, self._judge.rules
        yield Obstacle.PROTECTED, rows["open"] == PROTECTED
        yield Obstacle.NOT_EVICTABLE, rows["open"] != OPEN
        yield Obstacle.NOT_EVICTABLE, self._named((self._judge.preemptor.id,))
        yield from self._by_queue()
        yield Obstacle.PROMISED, self._named(rules.promised)
        until_ms = self._min_runtime_until_ms()
        yield Obstacle.MIN_RUNTIME, self._later(until_ms)
        until_ms = np.where(self._gives_back(), 0, self.cooldown_until_ms())
        yield Obstacle.COOLDOWN, self._later(until_ms)
        yield Obstacle.LOSS_BUDGET, self._beyond_budget()

    def _gives_back(self) -> Mask:
        """What holds what others own: it is owed now, so no cooldown keeps it (docs/adr/0035)."""
        return np.isin(self._occupants.workloads["queue"], self._reclaimed)

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
        yield (
            Obstacle.BELOW_NOMINAL,
            np.minimum(rows["gpu"], rows["least"]) > most[queue],
        )

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
        lost = self._lost_ms * np.minimum(rows["gpu"], rows["least"]) // GPU_MILLI
        return lost > team_left[rows["team"]]
