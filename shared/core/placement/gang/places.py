"""The places of one level of the fabric that come in question for a gang, in order.

They are those where each shape of pod finds room if it were alone, the fullest first (tight fit:
emptier domains survive for larger gangs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import Domain
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level, Spread
from shared.core.placement.gang.fill import Layout
from shared.core.placement.room import Place, RoomIndex, room_index

PLACES_BY_DEVICES_MAX: Final = 4
"""Places tried at one level by a count that leaves CPU and memory out."""
PLACES_MAX: Final = 64
"""Places tried at one level. Pods of one shape need one; unlike ones may need more."""
COMPARED_MAX: Final = 4
"""The tightest blocks or zones, of which the one is taken that is touched in the fewest parts."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A layout, and what is tried of it now."""

    layout: Layout
    node_classes: tuple[tuple[CapacityIndex, ...], ...]
    """On which each pod set may run."""
    spread: Spread
    """How far apart the pods are, whatever the gang would take."""

    @property
    def distinct(self) -> bool:
        """Whether each pod has a node of its own."""
        return self.spread is Spread.REQUIRED

    @property
    def common_node_classes(self) -> tuple[CapacityIndex, ...]:
        """On which every pod set may run."""
        return tuple(
            node_class
            for node_class in self.node_classes[0]
            if all(node_class in each for each in self.node_classes)
        )


def places(trial: Trial, level: Level) -> list[Place]:
    """Places of `level` where each shape of pod finds room if it were alone, tightest first."""
    layout = trial.layout
    needs = needed(trial, level)
    scarcest, pods = min(needs, key=lambda need: need[0].count_at_least(level, need[1]))
    places_max = PLACES_BY_DEVICES_MAX if layout.by_devices else PLACES_MAX
    needs += gpus_together(trial)
    found = [
        place
        for _, _, place in scarcest.at_least(level, pods, places_max)
        if all(index.room(place) >= pods for index, pods in needs)
    ]
    if level in (Level.BLOCK, Level.ZONE):
        found[:COMPARED_MAX] = sorted(
            found[:COMPARED_MAX], key=lambda place: _parts(scarcest, place, pods)
        )
    return found


def needed(trial: Trial, level: Level) -> list[tuple[RoomIndex, int]]:
    """By shape of pod, the index of its room and how many pods there are of it."""
    return [
        (index_of(trial, demand, node_classes), pods)
        for demand, pods, node_classes in _shapes(trial, level)
    ]


def gpus_together(trial: Trial) -> list[tuple[RoomIndex, int]]:
    """The whole GPUs of unlike pods, as so many pods with one: where fewer are no order helps."""
    demands = trial.layout.gang.demands
    wholes = [at for at, demand in enumerate(demands) if demand.gpus]
    alike = len({demands[at].shape for at in wholes}) <= 1
    if trial.distinct or alike:
        return []
    each = replace(demands[wholes[0]], gpus=1, cpu_milli=0, memory_mib=0, aligned=False, slices=())
    gpus = sum(demands[at].gpus * demands[at].count for at in wholes)
    return [(index_of(trial, each, trial.node_classes[wholes[0]]), gpus)]


def together(gang: Gang) -> PodDemand:
    """All pods as one: whole GPUs, CPU and memory in sum. What one node must have at least."""
    return replace(
        gang.demands[0],
        aligned=False,
        gpus=sum(demand.gpus * demand.count for demand in gang.demands),
        milli=0,
        share_memory_mib=0,
        profile="",
        instances=0,
        cpu_milli=sum(demand.cpu_milli * demand.count for demand in gang.demands),
        memory_mib=sum(demand.memory_mib * demand.count for demand in gang.demands),
    )


def _shapes(
    trial: Trial, level: Level
) -> Iterator[tuple[PodDemand, int, tuple[CapacityIndex, ...]]]:
    """(demand, pods, node classes) of each shape; on one node, also all pods together as one."""
    gang = trial.layout.gang
    counts = Counter[Hashable]()
    for demand in gang.demands:
        counts[demand.shape] += demand.count
    first = {demand.shape: at for at, demand in reversed(list(enumerate(gang.demands)))}
    for shape, at in first.items():
        yield gang.demands[at], counts[shape], trial.node_classes[at]
    if level is Level.NODE and len(first) > 1:
        yield together(gang), 1, trial.common_node_classes


def index_of(
    trial: Trial, demand: PodDemand, node_classes: tuple[CapacityIndex, ...]
) -> RoomIndex:
    """Where there is room for pods like `demand`, alone."""
    layout, counted = trial.layout, trial.layout.counted(demand)
    return room_index(
        layout.cluster, node_classes, counted, layout.gang.team, distinct=trial.distinct
    )


def _parts(index: RoomIndex, place: Place, pods: int) -> int:
    """How many parts of `place` it takes to hold `pods`, the largest first."""
    assert isinstance(place, Domain), "no node is a place of a level that has parts"
    parts = 0
    for room, _, _ in reversed(index.children(place)):
        if pods <= 0:
            break
        parts += 1
        pods -= room
    return parts
