"""What a scoring policy is: a preference among conditions of nodes and of shared GPUs.

A condition is what cells tell apart (core/scoring/equivalence_classes.py). A policy sees many at
once, as columns of one length, and answers with one value for each; larger is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from shared.core.cluster.node_class import NodeClass
from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.cells import Ints
from shared.core.scoring.mix import PodClass
from shared.core.scoring.share_values import MILLI_STEP

Floats = NDArray[np.float64]

CORES: Final = 256
"""Free CPU is told apart up to this many cores."""
GPUS: Final = 16
"""Free GPUs of a node are told apart up to this many."""
PART_MILLI: Final = 500
"""Step in which the free parts of shared GPUs are summed."""
PARTS: Final = GPUS * GPU_MILLI // PART_MILLI
CPU_STEP_MILLI: Final = 2_000
"""Step in which cells of nodes tell free CPU apart."""
SHARED_CPU_STEP_MILLI: Final = 4_000
"""The same for shared GPUs, of which there are many conditions."""
REST_MILLI: Final = 2_000
"""Step in which cells of shared GPUs tell the free GPU beside it apart."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What policies make tables of: the learned mix of demand, and the fleet that it meets."""

    counts: Mapping[PodClass, int]
    """Pods asked for by class; some at least."""
    classes: Sequence[NodeClass]
    """The node classes by number."""


@dataclass(frozen=True, slots=True)
class Places:
    """Columns that conditions of nodes and of shared GPUs have in common."""

    number: Ints
    """Of the node class."""
    free_milli: Ints
    """GPU that is free on the node."""
    cores: Ints
    """Free CPU in whole cores ..."""
    cores_after: Ints
    """... and what is left of it beside the pod."""


@dataclass(frozen=True, slots=True)
class NodePlaces(Places):
    """Conditions of nodes, for whole GPUs, CPU alone, or a share that opens a GPU."""

    free: Ints
    """Wholly free GPUs ..."""
    after: Ints
    """... and those left beside the pod."""
    parts: Ints
    """Free parts of its shared GPUs, in steps of `PART_MILLI`."""


@dataclass(frozen=True, slots=True)
class GpuPlaces(Places):
    """Conditions of GPUs that are shared already, for one more share."""

    free: Ints
    """The free part, in steps of `MILLI_STEP` ..."""
    after: Ints
    """... and what is left of it."""
    rest: Ints
    """GPUs' worth of free room on the rest of the node."""


class ScoringPolicy(Protocol):
    """One preference. Values outside `least` to `most` count as the nearest of these."""

    least: ClassVar[int]
    most: ClassVar[int]

    def __init__(self, learned: Learned) -> None:
        """Build tables. O(classes of pods + classes of nodes), not O(nodes)."""

    def of_nodes(self, places: NodePlaces, demand: PodDemand) -> Ints | Floats | None:
        """Whole values, one for each condition; None: it has no say in the choice of nodes."""

    def of_gpus(self, places: GpuPlaces, demand: PodDemand) -> Ints | Floats | None:
        """The same for shared GPUs."""


def node_places(conditions: Ints, demand: PodDemand) -> NodePlaces:
    """Of rows (class, free GPUs, parts, step of CPU)."""
    number, free, parts, step = conditions.T
    free, parts = np.minimum(free, GPUS), np.minimum(parts, PARTS)
    after = np.maximum(free - opened(demand), 0)
    free_milli = free * GPU_MILLI + parts * PART_MILLI
    return NodePlaces(number, free_milli, *_cores(step, demand), free, after, parts)


def gpu_places(conditions: Ints, demand: PodDemand) -> GpuPlaces:
    """Of rows (class, free part, step of the rest, step of CPU)."""
    number, free, rest, step = conditions.T
    step, rest = step * (SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI), rest * (REST_MILLI // GPU_MILLI)
    after = np.maximum(free - steps_of(demand), 0)
    free_milli = rest * GPU_MILLI + free * MILLI_STEP
    return GpuPlaces(number, free_milli, *_cores(step, demand), free, after, rest)


def opened(demand: PodDemand) -> int:
    """Wholly free GPUs that the pod takes where it shares none."""
    return demand.gpus or int(demand.milli > 0)


def steps_of(demand: PodDemand) -> int:
    """The share in steps of `MILLI_STEP`, rounded up."""
    return -(-demand.milli // MILLI_STEP)


def _cores(step: Ints, demand: PodDemand) -> tuple[Ints, Ints]:
    """Whole cores before and after; a node that has just enough is taken to have it."""
    before_milli = np.maximum(step * CPU_STEP_MILLI, demand.cpu_milli)
    after_milli = before_milli - demand.cpu_milli
    return np.minimum(before_milli // 1000, CORES - 1), np.minimum(after_milli // 1000, CORES - 1)
