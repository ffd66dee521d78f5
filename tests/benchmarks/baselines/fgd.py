"""Fragmentation gradient descent: Weng et al., 'Beware of Fragmentation', USENIX ATC 2023.

The fragmentation of a node, for a class of pods, is the free GPU that this class cannot use. FGD
puts each pod where the expected fragmentation over the classes of the workload grows least. As in
the authors' simulator the score is an integer: floor(100 x sigmoid(decrease / 1000)).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from tests.benchmarks.baselines.fleet import Fleet, Floats, Ints
from tests.benchmarks.openb import GPU_MILLI, TracePod

TYPICAL_SHARE = 0.95
"""The most frequent classes are typical until they are this share of the pods."""


class Fragmentation:
    """F of the paper, for the typical pods of one workload, known from its full trace."""

    def __init__(self, fleet: Fleet, pods: Iterable[TracePod]) -> None:
        """`pods` are the original ones, before tuning."""
        typical = _typical(pods)
        total = sum(count for _, count in typical)
        classes = [pod for pod, _ in typical]
        self._share: Floats = np.array([count / total for _, count in typical])
        self._cpu: Ints = np.array([pod.cpu_milli for pod in classes])
        self._milli: Ints = np.array([pod.milli for pod in classes])
        self._gpus: Ints = np.array([pod.gpus for pod in classes])
        self._accepts = np.array([fleet.accepts(pod) for pod in classes])

    def of(self, model: Ints, cpu_left: Ints, gpu_left: Ints) -> Floats:
        """(nodes,) milli-GPU that is of no use in expectation; `gpu_left` is (nodes, gpus)."""
        free = gpu_left[:, None, :]
        enough = free >= self._milli[:, None]
        usable = (
            (self._gpus > 0)
            & self._accepts.T[model]
            & (cpu_left[:, None] >= self._cpu)
            & ((enough & (free > 0)).sum(axis=2) >= self._gpus)
        )
        too_small = np.where(enough, 0, free).sum(axis=2)
        everything = gpu_left.sum(axis=1)[:, None]
        fragmented: Floats = np.where(usable, too_small, everything) @ self._share
        return fragmented


def _typical(pods: Iterable[TracePod]) -> list[tuple[TracePod, int]]:
    counts = Counter(
        TracePod(
            cpu_milli=pod.cpu_milli,
            memory_mib=0,
            gpus=pod.gpus,
            milli=pod.milli,
            models=pod.models,
        )
        for pod in pods
    )
    kept: list[tuple[TracePod, int]] = []
    covered = 0
    for pod, count in counts.most_common():
        if covered >= TYPICAL_SHARE * counts.total():
            break
        kept.append((pod, count))
        covered += count
    return kept


class Fgd:
    """The policy."""

    def __init__(self, fleet: Fleet, fragmentation: Fragmentation) -> None:
        """`fragmentation` speaks of the workload that will arrive."""
        self._fleet = fleet
        self._fragmentation = fragmentation

    def score(self, pod: TracePod, at: Ints) -> Ints:
        """0 to 100; of the GPUs that a fraction fits on, the best one counts."""
        before = self._before(at)
        if pod.gpus == 1 and pod.milli < GPU_MILLI:
            row, gpu = np.nonzero(self._fleet.gpu_left[at] >= pod.milli)
            after = self._after_fraction(pod, at[row], gpu)
            best = np.zeros(len(at), dtype=np.int64)
            np.maximum.at(best, row, _bounded(before[row] - after))
            return best
        return _bounded(before - self._after_whole(pod, at))

    def pick_gpus(self, pod: TracePod, node: int) -> Sequence[int]:
        """A fraction goes where fragmentation grows least; whole GPUs in order of index."""
        left = self._fleet.gpu_left[node]
        fitting = np.nonzero(left >= pod.milli)[0] if pod.gpus else np.empty(0, dtype=np.int64)
        if pod.gpus == 1 and pod.milli < GPU_MILLI:
            after = self._after_fraction(pod, np.full(len(fitting), node), fitting)
            before = self._before(np.array([node]))
            return [int(fitting[_bounded(before - after).argmax()])]
        return [int(gpu) for gpu in fitting[: pod.gpus]]

    def taken(self, pod: TracePod, node: int) -> None:
        """Nothing to remember."""

    def _before(self, at: Ints) -> Floats:
        fleet = self._fleet
        return self._fragmentation.of(fleet.model[at], fleet.cpu_left[at], fleet.gpu_left[at])

    def _after_fraction(self, pod: TracePod, at: Ints, gpu: Ints) -> Floats:
        left = self._fleet.gpu_left[at]
        left[np.arange(len(at)), gpu] -= pod.milli
        return self._after(pod, at, left)

    def _after_whole(self, pod: TracePod, at: Ints) -> Floats:
        left = self._fleet.gpu_left[at]
        if pod.gpus:
            fits = left >= pod.milli
            left[fits & (fits.cumsum(axis=1) <= pod.gpus)] -= pod.milli
        return self._after(pod, at, left)

    def _after(self, pod: TracePod, at: Ints, gpu_left: Ints) -> Floats:
        cpu_left = self._fleet.cpu_left[at] - pod.cpu_milli
        return self._fragmentation.of(self._fleet.model[at], cpu_left, gpu_left)


def _bounded(decrease_milli: Floats) -> Ints:
    return np.floor(100 / (1 + np.exp(-decrease_milli / 1000))).astype(np.int64)
