"""The scores of conditions under the learned mix, each worked out once for a class of pods."""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.cluster.node_class import NodeClass
from shared.core.model.demand import PodDemand
from shared.core.scoring.cells import Conditions, Ints
from shared.core.scoring.equivalence_classes import EquivalenceClasses
from shared.core.scoring.mix import DemandMix
from shared.core.scoring.policy import Learned
from shared.core.scoring.scores import Bools, Scorer

SCORES_MAX: Final = 2048
"""Classes with scores that are kept; more are worked out again."""

ScoreKey = tuple[bool, int, int, int, int, tuple[NodeClass, ...]]


class Scores:
    """The scores of one class of pods, for the cells there were when it was last asked."""

    __slots__ = ("allowed", "known", "values")

    def __init__(self, allowed: Bools) -> None:
        self.allowed = allowed
        self.known = 0
        self.values: Ints = np.empty(0, dtype=np.int64)

    def grow(self, size: int, room: int) -> None:
        """Room for `size` scores, if there is none; then at once for `room`."""
        if len(self.values) < size:
            values = np.empty(room, dtype=np.int64)
            values[: self.known] = self.values[: self.known]
            self.values = values


class LearnedScores:
    """Scores by the number that conditions have in a packing's index."""

    def __init__(self, index: EquivalenceClasses) -> None:
        self._index = index
        self._scorer: Scorer | None = None
        self._made_for = (0, 0)
        """The mix and the numbers that `_scorer` and `_scores` were made for."""
        self._scores: dict[ScoreKey, Scores] = {}

    def follow(self, mix: DemandMix) -> None:
        """Go by the mix in force and the node classes there are. O(classes + table) if new."""
        now = (mix.version, self._index.edition)
        if self._scorer is None or self._made_for != now:
            self._made_for = now
            self._scorer = Scorer(Learned(mix.counts, self._index.node_classes))
            self._scores.clear()

    def of_nodes(self, node_classes: tuple[NodeClass, ...], demand: PodDemand) -> Ints:
        """Scores of conditions of nodes, for a pod that may run on `node_classes`."""
        return self._of(self._index.conditions, node_classes, demand, of_nodes=True)

    def of_gpus(self, node_classes: tuple[NodeClass, ...], demand: PodDemand) -> Ints:
        """The same for shared GPUs."""
        return self._of(self._index.shared_conditions, node_classes, demand, of_nodes=False)

    def _of(
        self,
        conditions: Conditions,
        node_classes: tuple[NodeClass, ...],
        demand: PodDemand,
        *,
        of_nodes: bool,
    ) -> Ints:
        """Those that are new are worked out."""
        assert self._scorer is not None
        scores = self._known(node_classes, demand, of_nodes=of_nodes)
        known, size = scores.known, conditions.size
        if known < size:
            rule = self._scorer.of_nodes if of_nodes else self._scorer.of_gpus
            scores.grow(size, len(conditions.columns))
            fresh = conditions.columns[known:size]
            scores.values[known:size] = rule(scores.allowed, fresh, demand)
            scores.known = size
        return scores.values

    def _known(
        self, node_classes: tuple[NodeClass, ...], demand: PodDemand, *, of_nodes: bool
    ) -> Scores:
        share = (demand.gpus, demand.milli, demand.cpu_milli, demand.share_memory_mib)
        key = (of_nodes, *share, node_classes)
        scores = self._scores.get(key)
        if scores is None:
            if len(self._scores) >= SCORES_MAX:
                self._scores.clear()
            scores = self._scores[key] = Scores(self._allowed(node_classes, demand))
        return scores

    def _allowed(self, node_classes: tuple[NodeClass, ...], demand: PodDemand) -> Bools:
        """(node classes,) where the pod may run."""
        return np.array(
            [
                node_class in node_classes
                and node_class.key.gpu_memory_mib >= demand.share_memory_mib
                for node_class in self._index.node_classes
            ]
        )
