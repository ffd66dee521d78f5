"""A gang of equal pods with whole GPUs by the reference: the rules of core/gang over arrays."""

from __future__ import annotations

import numpy as np

from shared.core.gang.places import COMPARED_MAX
from shared.core.kernels.arrays import (
    ANYWHERE,
    BLOCK,
    CPU,
    CPU_PER_GPU,
    FREE,
    GPUS,
    KIND,
    MEMORY,
    NONE,
    POD_CPU,
    POD_MEMORY,
    PODS,
    SHAPE,
    SLOT,
    TEAM,
    WIDEST,
    WORKS,
    Ints,
)
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.reference_held import Held
from shared.core.kernels.reference_rooms import (
    Part,
    children,
    next_part,
    parts_for,
    parts_of,
    rooms_of,
    rooms_of_domains,
)
from shared.core.kernels.reference_single import bits_of, pick


class Gangs:
    """Places gangs in one fleet, holding pod by pod."""

    def __init__(self, fleet: Fleet, held: Held) -> None:
        self._fleet = fleet
        self._held = held

    def place(self, request: list[int]) -> None:
        """Hold all pods of a gang, or none."""
        shape, widest = request[SHAPE], request[WIDEST]
        done = widest != NONE and (
            self._on_one_node(request)
            or any(self._at_level(request, level) for level in range(widest))
        )
        if not done and (widest == NONE or request[ANYWHERE]):
            mark = self._held.logged
            pod = self._fleet.state.shapes[shape]
            for at in range(request[PODS]):
                node = self._tightest(shape, pod[GPUS], pod[POD_CPU], pod[POD_MEMORY])
                if node == NONE:
                    self._held.roll_back(mark)
                    return
                self._fill_node(request, node, at, at + 1)

    def _tightest(self, shape: int, gpus: int, cpu_milli: int, memory_mib: int) -> int:
        """The node with the fewest free GPUs that suffice; then: keeps CPU, least CPU, rank."""
        state = self._fleet.state
        nodes = state.nodes
        free = bits_of(nodes[:, FREE])
        fits = (nodes[:, WORKS] > 0) & state.allowed[shape, nodes[:, KIND]] & (free >= gpus)
        fits &= (nodes[:, CPU] >= max(cpu_milli, 0)) & (nodes[:, MEMORY] >= memory_mib)
        numbers = np.flatnonzero(fits)
        if not len(numbers):
            return NONE
        keep_milli = (free - gpus) * state.kinds[nodes[:, KIND], CPU_PER_GPU]
        short = (nodes[:, CPU] - cpu_milli < keep_milli)[numbers]
        order = np.lexsort((numbers, nodes[numbers, CPU], short, free[numbers]))
        return int(numbers[order[0]])

    def _on_one_node(self, request: list[int]) -> bool:
        pod, pods = self._fleet.state.shapes[request[SHAPE]], request[PODS]
        cpu_milli, memory_mib = pod[POD_CPU] * pods, pod[POD_MEMORY] * pods
        node = self._tightest(request[SHAPE], pod[GPUS] * pods, cpu_milli, memory_mib)
        return node != NONE and self._fill_node(request, node, 0, pods) == pods

    def _at_level(self, request: list[int], level: int) -> bool:
        """The domain with the least room that holds the gang; by devices, then exactly."""
        for exactly in (False, True):
            rooms = rooms_of(self._fleet.state, request[SHAPE], exactly=exactly)
            in_domains = rooms_of_domains(self._fleet.state, rooms)
            places = self._tightest_domains(request, level, rooms, in_domains)
            for place in places:
                mark = self._held.logged
                parts = parts_of(self._fleet.state, place, request[PODS], rooms, in_domains)
                if self._fill(request, parts, 0, rooms, in_domains) == request[PODS]:
                    return True
                self._held.roll_back(mark)
        return False

    def _tightest_domains(
        self, request: list[int], level: int, rooms: Ints, in_domains: Ints
    ) -> list[int]:
        """Those to try; of blocks and zones the one first that is touched in the fewest parts."""
        state, pods = self._fleet.state, request[PODS]
        first, last = state.levels[level : level + 2]
        places = first + np.flatnonzero(in_domains[first:last] >= pods)
        order = np.lexsort((places, in_domains[places]))
        tightest: list[int] = places[order][:COMPARED_MAX].tolist()
        if level >= BLOCK:
            tightest.sort(key=lambda place: parts_for(state, place, pods, rooms, in_domains))
        return tightest

    def _fill(
        self, request: list[int], parts: list[Part], placed: int, rooms: Ints, in_domains: Ints
    ) -> int:
        """Hold pods from number `placed` on in parts of a domain; how many are placed then."""
        while placed < request[PODS] and parts:
            part = next_part(parts, request[PODS] - placed)[2]
            if part < 0:
                placed = self._fill_node(request, -1 - part, placed, request[PODS])
            else:
                inner = children(self._fleet.state, part, rooms, in_domains)
                placed = self._fill(request, inner, placed, rooms, in_domains)
        return placed

    def _fill_node(self, request: list[int], node: int, placed: int, pods: int) -> int:
        """Hold pods `placed` to `pods` - 1 on a node, as long as there is room; the next one."""
        shape = request[SHAPE]
        gpus = int(self._fleet.state.shapes[shape, GPUS])
        while placed < pods and rooms_of(self._fleet.state, shape, exactly=True)[node]:
            picked = pick(self._fleet.state, node, gpus)
            self._held.hold(request[SLOT] + placed, node, picked, shape, request[TEAM])
            placed += 1
        return placed
