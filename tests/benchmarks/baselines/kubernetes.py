"""Scores of kube-scheduler's kind, as the FGD paper compares them (its section 6.1 and simulator).

BestFit: the least weighted sum of what is left. DotProd: the least alignment of what is left with
what is asked (Tetris, SIGCOMM 2014, turned to packing). LeastAllocated and MostAllocated: the mean
share of CPU, memory and GPU that is used after the placement (kube-scheduler, NodeResourcesFit).
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from tests.benchmarks.baselines.fleet import Fleet, Floats, Ints, tightest_gpus
from tests.benchmarks.openb import GPU_MILLI, TracePod

CPU_MILLI_MAX = 128_000
GPU_MILLI_MAX = 8_000
"""The largest node, by which amounts are scaled."""


class _Tightest:
    """Inside a node: the GPU with the least left that suffices."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def pick_gpus(self, pod: TracePod, node: int) -> Sequence[int]:
        return tightest_gpus(self._fleet, pod, node)

    def taken(self, pod: TracePod, node: int) -> None:
        """Nothing to remember."""


class BestFit(_Tightest):
    """Least CPU and GPU left behind, in equal parts."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        cpu = (self._fleet.cpu_left[at] - pod.cpu_milli) / CPU_MILLI_MAX
        gpu = (self._fleet.gpu_left[at].sum(axis=1) - pod.gpu_milli) / GPU_MILLI_MAX
        scores: Ints = ((1 - (0.5 * cpu + 0.5 * gpu)) * 100).astype(np.int64)
        return scores


class DotProd(_Tightest):
    """Least product of what is left and what is asked."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        cpu = self._fleet.cpu_left[at] * (pod.cpu_milli / CPU_MILLI_MAX**2)
        gpu = self._fleet.gpu_left[at].sum(axis=1) * (pod.gpu_milli / GPU_MILLI_MAX**2)
        scores: Ints = ((1 - (cpu + gpu) / 2) * 100).astype(np.int64)
        return scores


class _MeanUsed(_Tightest):
    """By the mean share of CPU, memory and GPU in use."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._cpu = fleet.cpu_left.copy()
        self._memory = fleet.memory_left.copy()

    def _used(self, pod: TracePod, at: Ints) -> Floats:
        """Mean share of CPU, memory and GPU in use once the pod is there."""
        fleet = self._fleet
        gpu_left = fleet.gpu_left[at].sum(axis=1) - pod.gpu_milli
        left = (
            (fleet.cpu_left[at] - pod.cpu_milli) / self._cpu[at]
            + (fleet.memory_left[at] - pod.memory_mib) / self._memory[at]
            + gpu_left / (fleet.gpus[at] * GPU_MILLI)
        )
        used: Floats = 1 - left / 3
        return used


class MostAllocated(_MeanUsed):
    """The fullest node first."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        return (self._used(pod, at) * 100).astype(np.int64)


class LeastAllocated(_MeanUsed):
    """The emptiest node first: what Kubernetes does unless told otherwise."""

    def score(self, pod: TracePod, at: Ints) -> Ints:
        return ((1 - self._used(pod, at)) * 100).astype(np.int64)


class RandomFit:
    """Any node that fits, any GPU that fits, each as likely."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet = fleet
        self._draw = Random(seed)

    def place(self, pod: TracePod) -> tuple[int, Sequence[int]] | None:
        """As `Scan.place`."""
        every = np.arange(len(self._fleet.names))
        fitting = every[self._fleet.feasible(pod, every)]
        if not len(fitting):
            return None
        node = int(fitting[self._draw.randrange(len(fitting))])
        gpus = np.nonzero(self._fleet.gpu_left[node] >= pod.milli)[0].tolist()
        picked = self._draw.sample(gpus, pod.gpus) if pod.gpus else []
        self._fleet.take(node, picked, pod)
        return node, picked
