"""Two GPU-first policies of Alibaba's schedulers, as the FGD paper describes and simulates them.

GpuPacking fills GPUs that are shared already, then free GPUs of nodes in use, then idle nodes.
GpuClustering keeps pods of one kind (shares, 1-GPU, 2-GPU ...) together on a node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.benchmarks.baselines.fleet import Fleet, Ints, tightest_gpus
from tests.benchmarks.openb import GPU_MILLI, TracePod

SHARED_MIN, FREE_MIN = 50, 33
"""Least scores of a shared GPU, and of a free GPU on a node in use."""


FULL = 8 * GPU_MILLI
"""The largest node, by which fullness is scaled."""


class GpuPacking:
    """Shared GPUs, then free ones beside them, then idle nodes."""

    def __init__(self, fleet: Fleet) -> None:
        """Reads `fleet` only."""
        self._fleet = fleet

    def score(self, pod: TracePod, at: Ints) -> Ints:
        """50 to 100 on shared GPUs, 33 to 50 on nodes in use, below that on idle ones.

        Pods without GPU find all nodes alike.
        """
        if not pod.gpus:
            return np.zeros(len(at), dtype=np.int64)
        left = self._fleet.gpu_left[at]
        gpus = self._fleet.gpus[at]
        idle = ((left == GPU_MILLI) & self._fleet.exists[at]).sum(axis=1) == gpus
        tightest = np.sort(np.where(left >= pod.milli, left, GPU_MILLI * 100), axis=1)
        used = tightest[:, : pod.gpus]
        opened = (used == GPU_MILLI).sum(axis=1)
        on_shared = np.maximum(100 - (used * 100 // GPU_MILLI).sum(axis=1) // 10, SHARED_MIN)
        on_free = np.maximum(SHARED_MIN - opened, FREE_MIN)
        return np.where(
            idle, np.maximum(FREE_MIN - gpus, gpus), np.where(opened > 0, on_free, on_shared)
        )

    def pick_gpus(self, pod: TracePod, node: int) -> Sequence[int]:
        """The tightest."""
        return tightest_gpus(self._fleet, pod, node)

    def taken(self, pod: TracePod, node: int) -> None:
        """Nothing to remember."""


class GpuClustering:
    """Nodes with pods of the same kind alone, with some of the kind, idle ones, any other."""

    def __init__(self, fleet: Fleet) -> None:
        """Reads `fleet` only."""
        self._fleet = fleet
        self._kinds = np.zeros((len(fleet.names), 10), dtype=bool)
        """(nodes, kinds) what runs there: CPU alone is 9, shares are 0, n whole GPUs n."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        """A quarter of the range for each of the four cases; fuller nodes first inside.

        Pods without GPU find all nodes alike.
        """
        if not pod.gpus:
            return np.zeros(len(at), dtype=np.int64)
        left = self._fleet.gpu_left[at].sum(axis=1)
        full = 25 * (FULL - left) // FULL
        here = self._kinds[at, _kind(pod)]
        others = self._kinds[at].sum(axis=1) - here
        alone = others == 0
        level = np.where(here, np.where(alone, 75, 50), np.where(alone, 25, 0))
        level += full
        return level

    def pick_gpus(self, pod: TracePod, node: int) -> Sequence[int]:
        """The tightest."""
        return tightest_gpus(self._fleet, pod, node)

    def taken(self, pod: TracePod, node: int) -> None:
        """Remember what runs there; pods without GPU do not matter."""
        if pod.gpus:
            self._kinds[node, _kind(pod)] = True


def _kind(pod: TracePod) -> int:
    if not pod.gpus:
        return 9
    return 0 if pod.gpus == 1 and pod.milli < GPU_MILLI else pod.gpus
