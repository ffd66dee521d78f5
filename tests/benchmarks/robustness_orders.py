"""Orders in which the same pods may arrive, and what an order leaves to whoever takes what comes.

- ascending, descending, by-name: by size (GPU, then CPU) or by name;
- mix: three quarters of the shares and CPU work come in the first half, of the whole GPUs a
  quarter; the rest in the second half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.benchmarks.bound import allocation_bound_percent
from tests.benchmarks.openb import TraceNode, TracePod

EARLY_SHARES, EARLY_WHOLE = 0.75, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPod(TracePod):
    """A pod with its place in the order of names."""

    number: int


def by_size(pods: Sequence[NamedPod]) -> list[NamedPod]:
    """The least GPU first, then the least CPU."""
    return sorted(pods, key=lambda pod: (pod.gpu_milli, pod.cpu_milli, pod.number))


def changed_mix(pods: Sequence[NamedPod], seed: int) -> list[NamedPod]:
    """Mostly shares and CPU work in the first half, mostly whole GPUs in the second."""
    whole = [pod for pod in pods if pod.milli == 1000]
    other = [pod for pod in pods if pod.milli != 1000]
    early_whole, early_other = int(EARLY_WHOLE * len(whole)), int(EARLY_SHARES * len(other))
    first = whole[:early_whole] + other[:early_other]
    second = whole[early_whole:] + other[early_other:]
    draw = Random(seed)
    draw.shuffle(first)
    draw.shuffle(second)
    return first + second


Order = Callable[[Sequence[NamedPod], int], Sequence[NamedPod]]
ORDERS: dict[str, Order] = {
    "shuffled": lambda pods, _: pods,
    "ascending": lambda pods, _: by_size(pods),
    "descending": lambda pods, _: by_size(pods)[::-1],
    "by-name": lambda pods, _: sorted(pods, key=lambda pod: pod.number),
    "mix": changed_mix,
}


def order_bound_percent(
    nodes: Sequence[TraceNode], asked: Sequence[TracePod], taken: int
) -> float:
    """Percent of the GPUs at the very most, if the first `taken` pods are placed, all of them.

    Who takes what comes has taken these: what they waste is not to be had by any choice of places.
    Of the others any may be refused, with the future known. A linear program
    (tests/benchmarks/bound.py).
    """
    pods = [class_of(pod) for pod in asked]
    return allocation_bound_percent(nodes, pods, Counter(pods[:taken]))


def class_of(pod: TracePod) -> TracePod:
    """The pod without its place in the order of names."""
    return TracePod(
        cpu_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
        gpus=pod.gpus,
        milli=pod.milli,
        models=pod.models,
    )
