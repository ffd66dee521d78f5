"""What is free on every node, as arrays, and the loop that all baselines share.

A policy gives each node a score for a pod; the highest wins, and of equals the first in the fixed
arbitrary order of the nodes. Scores depend on the node and the pod alone, so they are kept for
each class of pods and worked out anew only for nodes that changed since the class was last seen:
the answers are those of a full scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

GPUS_MAX = 8
INFEASIBLE = -(1 << 60)


class Fleet:
    """Free amounts; changed only by `take`."""

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        """Node n of the arrays is `nodes[n]`."""
        self.names = [node.name for node in nodes]
        self.models = sorted({node.model for node in nodes})
        self.model: Ints = np.array([self.models.index(node.model) for node in nodes])
        self.gpus: Ints = np.array([node.gpus for node in nodes])
        self.cpu_left: Ints = np.array([node.cpu_milli for node in nodes])
        self.memory_left: Ints = np.array([node.memory_mib for node in nodes])
        self.exists = np.arange(GPUS_MAX) < self.gpus[:, None]
        """(nodes, gpus) bool."""
        self.gpu_left: Ints = np.where(self.exists, GPU_MILLI, 0)
        """(nodes, gpus) free milli."""
        self.capacity_milli = int(self.gpus.sum()) * GPU_MILLI

    def feasible(self, pod: TracePod, at: Ints) -> NDArray[np.bool_]:
        """Which of the nodes `at` can take `pod` now."""
        fits = (self.cpu_left[at] >= pod.cpu_milli) & (self.memory_left[at] >= pod.memory_mib)
        if pod.gpus:
            fits &= (self.gpu_left[at] >= pod.milli).sum(axis=1) >= pod.gpus
            if pod.models:
                fits &= self.accepts(pod)[self.model[at]]
        return fits

    def accepts(self, pod: TracePod) -> NDArray[np.bool_]:
        """For each model, whether `pod` may run on it."""
        return np.array([not pod.models or model in pod.models for model in self.models])

    def take(self, node: int, gpus: Sequence[int], pod: TracePod) -> None:
        """Charge `pod` to `node`; over-commitment is an error of the policy."""
        self.cpu_left[node] -= pod.cpu_milli
        self.memory_left[node] -= pod.memory_mib
        for gpu in gpus:
            self.gpu_left[node, gpu] -= pod.milli
        assert len(set(gpus)) == pod.gpus
        assert self.cpu_left[node] >= 0
        assert self.memory_left[node] >= 0
        assert self.gpu_left[node].min() >= 0
        assert not pod.models or self.models[self.model[node]] in pod.models


class Policy(Protocol):
    """What a baseline has to say."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        """How good each of the nodes `at` is, all of which can take `pod`; higher is better."""

    def pick_gpus(self, pod: TracePod, node: int) -> Sequence[int]:
        """Which GPUs of `node` the pod is given."""

    def taken(self, pod: TracePod, node: int) -> None:
        """The pod was placed there."""


class Scan:
    """The loop: where a policy puts each pod."""

    def __init__(self, fleet: Fleet, policy: Policy) -> None:
        """`policy` reads the same `fleet`."""
        self._fleet = fleet
        self._policy = policy
        self._changed: list[int] = []
        self._scores: dict[TracePod, tuple[Ints, int]] = {}

    def place(self, pod: TracePod) -> tuple[int, Sequence[int]] | None:
        """(node, GPUs) for `pod`, charged already; None if it fits nowhere."""
        scores = self._scores_of(pod)
        node = int(scores.argmax())
        if scores[node] == INFEASIBLE:
            return None
        gpus = self._policy.pick_gpus(pod, node)
        self._fleet.take(node, gpus, pod)
        self._changed.append(node)
        self._policy.taken(pod, node)
        return node, gpus

    def _scores_of(self, pod: TracePod) -> Ints:
        known = self._scores.get(pod)
        if known is None:
            scores = np.full(len(self._fleet.names), INFEASIBLE, dtype=np.int64)
            stale = np.arange(len(scores))
        else:
            scores = known[0]
            stale = np.array(sorted(set(self._changed[known[1] :])), dtype=np.int64)
        if len(stale):
            fits = self._fleet.feasible(pod, stale)
            scores[stale[~fits]] = INFEASIBLE
            asked = stale[fits]
            if len(asked):
                scores[asked] = self._policy.score(pod, asked)
        self._scores[pod] = (scores, len(self._changed))
        return scores


def tightest_gpus(fleet: Fleet, pod: TracePod, node: int) -> list[int]:
    """The GPUs with the least free milli that suffice, the lowest index of equals."""
    left = fleet.gpu_left[node]
    fitting = [gpu for gpu in np.argsort(left, kind="stable") if left[gpu] >= pod.milli]
    return [int(gpu) for gpu in fitting[: pod.gpus]] if pod.gpus else []
