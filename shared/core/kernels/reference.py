"""The reference back-end: every decision looks at all nodes, in NumPy, and keeps no index.

It says in few lines what the compiled back-end decides, and is what decides where numba is not
installed. O(n) for each pod.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from shared.core.cells import REFUSED
from shared.core.demand import PodDemand
from shared.core.fill_order import BLOCK_BITS, COUNT_BITS
from shared.core.gang import COMPARED_MAX
from shared.core.kernels.arrays import (
    ANYWHERE,
    BLOCK,
    BLOCK_ORDER,
    BOARD,
    CHILDREN,
    CPU,
    CPU_PER_GPU,
    FREE,
    GANG,
    GPU_MEMORY,
    GPUS,
    HELD_COLUMNS,
    HELD_GPUS,
    HELD_NODE,
    HELD_SHAPE,
    HELD_TEAM,
    KIND,
    MEMORY,
    MILLI,
    NODE_POSITION,
    NODES_FROM,
    NODES_TO,
    NONE,
    OWNER,
    PATH,
    PLACE,
    POD_CPU,
    POD_MEMORY,
    PODS,
    POSITION,
    SHAPE,
    SHARE,
    SHARE_MEMORY,
    SLOT,
    TEAM,
    USABLE,
    WHAT,
    WHOLE,
    WIDEST,
    WORKS,
    ZONE,
    Bools,
    Ints,
)
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.indexes import whole_nodes
from shared.core.market_scores import (
    CPU_STEP_MILLI,
    REST_MILLI,
    SHARED_CPU_STEP_MILLI,
    score_gpus,
    score_nodes,
)
from shared.core.topology import WHOLE_MAX
from shared.core.units import GPU_MILLI
from shared.core.waste import MILLI_STEP, PART_MILLI

Part = tuple[int, int, int]
"""(room, place among all in order of rank, domain or -1 - node)."""
KEY: Final = np.array([1 << 36, 1 << 24, 1 << 12, 1], dtype=np.int64)
"""Makes one number of a condition."""


class Reference:
    """Decides for one fleet, whose `state` it changes."""

    def __init__(self, fleet: Fleet) -> None:
        """It keeps nothing but a log."""
        self.fleet = fleet
        self._log: list[tuple[int, int, tuple[int, ...]]] = []
        """(1 held or -1 given back, slot, row of `State.held`)"""
        self._keeping = False

    def run(self, requests: Ints) -> None:
        """Work off requests (n, REQUEST_COLUMNS) in order; answers are in `State.held`.

        `fleet.learn` must have been called.
        """
        for request in requests.tolist():
            if not self._keeping:
                self._log.clear()
            if request[WHAT] == PLACE:
                self._single(request[SLOT], request[SHAPE], request[TEAM])
            elif request[WHAT] == GANG:
                self._gang(request)
            else:
                for slot in range(request[SLOT], request[SLOT] + request[PODS]):
                    self._give_back(slot)

    def mark(self) -> int:
        """A point to roll back to; from the first one on, everything is logged."""
        if not self._keeping:
            self._log.clear()
        self._keeping = True
        return len(self._log)

    def roll_back(self, mark: int) -> None:
        """Undo everything since `mark`."""
        while len(self._log) > mark:
            sign, slot, row = self._log.pop()
            self.fleet.state.held[slot] = row
            self._charge(slot, -sign)
            self.fleet.state.held[slot, HELD_NODE] = NONE if sign > 0 else row[HELD_NODE]

    def keep(self) -> None:
        """What was done stays; marks are void."""
        self._keeping = False

    # ── one pod ──

    def _single(self, slot: int, shape: int, team: int) -> None:
        node, score = self._best_node(shape)
        opened = int(self.fleet.state.shapes[shape, GPUS])
        if self.fleet.state.shapes[shape, SHARE]:
            opened = 1
            on_gpu, gpu, gpu_score = self._best_gpu(shape, team)
            if on_gpu != NONE and gpu_score >= score:
                self._hold(slot, on_gpu, 1 << gpu, shape, team)
                return
        if node != NONE:
            self._hold(slot, node, self._pick(node, opened), shape, team)

    def _best_node(self, shape: int) -> tuple[int, int]:
        """(node, score)."""
        nodes = self.fleet.state.nodes
        works = (nodes[:, WORKS] > 0) & (nodes[:, CPU] >= 0)
        parts_milli = self._free_parts_milli().sum(axis=1)
        conditions = np.column_stack(
            (
                nodes[:, KIND],
                _count(nodes[:, FREE]),
                parts_milli // PART_MILLI,
                nodes[:, CPU] // CPU_STEP_MILLI,
            )
        )
        numbers = self._in_order(np.flatnonzero(works))
        scores = self._scores(shape, conditions[numbers], of_gpus=False)
        fits = self._has_room(shape, numbers)
        at = _first_of_best(conditions[numbers], scores, fits)
        return (NONE, REFUSED) if at == NONE else (int(numbers[at]), int(scores[at]))

    def _best_gpu(self, shape: int, team: int) -> tuple[int, int, int]:
        """(node, GPU, score) among those that the team shares."""
        state = self.fleet.state
        nodes, pod = state.nodes, state.shapes[shape]
        parts_milli = self._free_parts_milli()
        works = (nodes[:, WORKS] > 0) & (nodes[:, CPU] >= 0)
        shared = works[:, None] & (parts_milli > 0) & (state.gpus[:, :, OWNER] == team)
        numbers, gpus = np.nonzero(shared)
        order = np.argsort(self._fill_keys()[numbers], kind="stable")
        numbers, gpus = numbers[order], gpus[order]
        free_milli = parts_milli[numbers, gpus]
        all_milli = _count(nodes[numbers, FREE]) * GPU_MILLI
        all_milli = all_milli + parts_milli[numbers].sum(axis=1)
        conditions = np.column_stack(
            (
                nodes[numbers, KIND],
                free_milli // MILLI_STEP,
                (all_milli - free_milli) // REST_MILLI,
                nodes[numbers, CPU] // SHARED_CPU_STEP_MILLI,
            )
        )
        scores = self._scores(shape, conditions, of_gpus=True)
        fits = self._has_room(shape, numbers) & (free_milli >= pod[SHARE])
        fits &= state.gpus[numbers, gpus, GPU_MEMORY] >= pod[SHARE_MEMORY]
        at = _first_of_best(conditions, scores, fits)
        if at == NONE:
            return NONE, NONE, REFUSED
        return int(numbers[at]), int(gpus[at]), int(scores[at])

    def _in_order(self, numbers: Ints) -> Ints:
        """Nodes in the order in which single pods take them, if all else is equal."""
        order: Ints = numbers[np.argsort(self._fill_keys()[numbers], kind="stable")]
        return order

    def _fill_keys(self) -> Ints:
        """(n,) what goes before the rank in core/fill_order.py; `NONE` outside the fabric."""
        nodes = self.fleet.state.nodes
        # The last row is that of no domain.
        counts = np.append(np.minimum(whole_nodes(self.fleet.state), WHOLE_MAX), 0)
        tight, wide = counts[nodes[:, PATH]], counts[nodes[:, PATH + 1]]
        tight, wide = np.where(nodes[:, PATH] == NONE, (wide, 0 * wide), (tight, wide))
        fewest, block = tight << COUNT_BITS | wide, nodes[:, BLOCK_ORDER]
        broken = block << 2 * COUNT_BITS | fewest
        whole = 1 << (2 * COUNT_BITS + BLOCK_BITS) | fewest << BLOCK_BITS | block
        keys = np.where(nodes[:, FREE] == nodes[:, WHOLE], whole, broken)
        return np.where(block == NONE, NONE, keys)

    def _free_parts_milli(self) -> Ints:
        """(n, G) what is free of each GPU that is shared."""
        state = self.fleet.state
        usable = state.nodes[:, USABLE, None] >> np.arange(state.gpus.shape[1]) & 1
        free_milli = GPU_MILLI - state.gpus[:, :, MILLI]
        return np.where((state.gpus[:, :, OWNER] != NONE) & (usable > 0), free_milli, 0)

    def _scores(self, shape: int, conditions: Ints, *, of_gpus: bool) -> Ints:
        rule = score_gpus if of_gpus else score_nodes
        assert self.fleet.waste is not None
        allowed, demand = self.fleet.state.allowed[shape], self._demand(shape)
        return rule(self.fleet.waste, allowed, conditions, demand)

    def _demand(self, shape: int) -> PodDemand:
        gpus, milli, share_memory_mib, cpu_milli, memory_mib = map(
            int, self.fleet.state.shapes[shape, : POD_MEMORY + 1]
        )
        return PodDemand(
            pod_set="",
            count=1,
            first_rank=0,
            gpus=gpus,
            milli=milli,
            share_memory_mib=share_memory_mib,
            profile="",
            instances=0,
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )

    def _has_room(self, shape: int, numbers: Ints) -> Bools:
        nodes, pod = self.fleet.state.nodes[numbers], self.fleet.state.shapes[shape]
        enough: Bools = (nodes[:, CPU] >= pod[POD_CPU]) & (nodes[:, MEMORY] >= pod[POD_MEMORY])
        return enough

    def _pick(self, node: int, count: int) -> int:
        state = self.fleet.state
        return int(state.picks[state.nodes[node, BOARD], state.nodes[node, FREE], count])

    # ── gangs ──

    def _gang(self, request: list[int]) -> None:
        shape, widest = request[SHAPE], request[WIDEST]
        done = widest != NONE and (
            self._on_one_node(request)
            or any(self._at_level(request, level) for level in range(widest))
        )
        if not done and (widest == NONE or request[ANYWHERE]):
            mark = len(self._log)
            pod = self.fleet.state.shapes[shape]
            for at in range(request[PODS]):
                node = self._tightest(shape, pod[GPUS], pod[POD_CPU], pod[POD_MEMORY])
                if node == NONE:
                    self.roll_back(mark)
                    return
                self._fill_node(request, node, at, at + 1)

    def _tightest(self, shape: int, gpus: int, cpu_milli: int, memory_mib: int) -> int:
        """The node with the fewest free GPUs that suffice; then: keeps CPU, least CPU, rank."""
        state = self.fleet.state
        nodes = state.nodes
        free = _count(nodes[:, FREE])
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
        pod, pods = self.fleet.state.shapes[request[SHAPE]], request[PODS]
        cpu_milli, memory_mib = pod[POD_CPU] * pods, pod[POD_MEMORY] * pods
        node = self._tightest(request[SHAPE], pod[GPUS] * pods, cpu_milli, memory_mib)
        return node != NONE and self._fill_node(request, node, 0, pods) == pods

    def _at_level(self, request: list[int], level: int) -> bool:
        """The domain with the least room that holds the gang; by devices, then exactly."""
        for exactly in (False, True):
            rooms = self._rooms(request[SHAPE], exactly=exactly)
            in_domains = self._rooms_of_domains(rooms)
            places = self._tightest_domains(request, level, rooms, in_domains)
            for place in places:
                mark = len(self._log)
                parts = self._parts(place, request[PODS], rooms, in_domains)
                if self._fill(request, parts, 0, rooms, in_domains) == request[PODS]:
                    return True
                self.roll_back(mark)
        return False

    def _tightest_domains(
        self, request: list[int], level: int, rooms: Ints, in_domains: Ints
    ) -> list[int]:
        """Those to try; of blocks and zones the one first that is touched in the fewest parts."""
        first, last = self.fleet.state.levels[level : level + 2]
        places = first + np.flatnonzero(in_domains[first:last] >= request[PODS])
        order = np.lexsort((places, in_domains[places]))
        tightest: list[int] = places[order][:COMPARED_MAX].tolist()
        if level >= BLOCK:
            tightest.sort(
                key=lambda place: self._parts_for(place, request[PODS], rooms, in_domains)
            )
        return tightest

    def _parts_for(self, place: int, pods: int, rooms: Ints, in_domains: Ints) -> int:
        """How many parts of a domain it takes to hold `pods`, the largest first."""
        largest_first = [room for room, _, _ in self._children(place, rooms, in_domains)[::-1]]
        return int((np.cumsum(largest_first) < pods).sum()) + 1

    def _rooms(self, shape: int, *, exactly: bool) -> Ints:
        """(n,) pods that each node has room for: by its free GPUs, or by everything."""
        state = self.fleet.state
        nodes, pod = state.nodes, state.shapes[shape]
        rooms = _count(nodes[:, FREE]) // pod[GPUS]
        for asked, free in ((pod[POD_CPU], nodes[:, CPU]), (pod[POD_MEMORY], nodes[:, MEMORY])):
            if exactly and asked:
                rooms = np.minimum(rooms, free // asked)
        may_run = (nodes[:, WORKS] > 0) & state.allowed[shape, nodes[:, KIND]]
        return np.where(may_run, np.maximum(rooms, 0), 0)

    def _rooms_of_domains(self, rooms: Ints) -> Ints:
        """(D,) the same for domains."""
        table, order = self.fleet.state.domains[:-1], self.fleet.state.order
        so_far = np.concatenate(([0], np.cumsum(rooms[order])))
        return so_far[table[:, NODES_TO]] - so_far[table[:, NODES_FROM]]

    def _parts(self, place: int, pods: int, rooms: Ints, in_domains: Ints) -> list[Part]:
        """Where to fill a domain; of a zone the racks of the fewest blocks that hold `pods`."""
        levels = self.fleet.state.levels
        parts = self._children(place, rooms, in_domains)
        if place < levels[ZONE]:
            return parts
        across: list[Part] = []
        while pods > 0 and parts:
            part = _next_part(parts, pods)
            pods -= part[0]
            is_block = levels[BLOCK] <= part[2] < levels[ZONE]
            across += self._children(part[2], rooms, in_domains) if is_block else [part]
        return sorted(across)

    def _children(self, place: int, rooms: Ints, in_domains: Ints) -> list[Part]:
        """Parts of a domain with any room, in order of room and rank."""
        state = self.fleet.state
        begin, end = state.domains[place : place + 2, CHILDREN]
        parts = [
            (int(in_domains[part]), int(state.domains[part, POSITION]), part)
            if part >= 0
            else (int(rooms[-1 - part]), int(state.nodes[-1 - part, NODE_POSITION]), part)
            for part in state.children[begin:end].tolist()
        ]
        return sorted(part for part in parts if part[0])

    def _fill(
        self, request: list[int], parts: list[Part], placed: int, rooms: Ints, in_domains: Ints
    ) -> int:
        """Hold pods from number `placed` on in parts of a domain; how many are placed then."""
        while placed < request[PODS] and parts:
            part = _next_part(parts, request[PODS] - placed)[2]
            if part < 0:
                placed = self._fill_node(request, -1 - part, placed, request[PODS])
            else:
                inner = self._children(part, rooms, in_domains)
                placed = self._fill(request, inner, placed, rooms, in_domains)
        return placed

    def _fill_node(self, request: list[int], node: int, placed: int, pods: int) -> int:
        """Hold pods `placed` to `pods` - 1 on a node, as long as there is room; the next one."""
        shape = request[SHAPE]
        gpus = int(self.fleet.state.shapes[shape, GPUS])
        while placed < pods and self._rooms(shape, exactly=True)[node]:
            picked = self._pick(node, gpus)
            self._hold(request[SLOT] + placed, node, picked, shape, request[TEAM])
            placed += 1
        return placed

    # ── what is held ──

    def _hold(self, slot: int, node: int, gpus: int, shape: int, team: int) -> None:
        row = np.zeros(HELD_COLUMNS, dtype=np.int64)
        row[[HELD_NODE, HELD_GPUS, HELD_SHAPE, HELD_TEAM]] = node, gpus, shape, team
        self.fleet.state.held[slot] = row
        self._log.append((1, slot, tuple(row.tolist())))
        self._charge(slot, 1)

    def _give_back(self, slot: int) -> None:
        row = self.fleet.state.held[slot]
        if row[HELD_NODE] != NONE:
            self._log.append((-1, slot, tuple(row.tolist())))
            self._charge(slot, -1)

    def _charge(self, slot: int, sign: int) -> None:
        """Take from the node what the pod in `slot` holds (1), or give it back (-1)."""
        state = self.fleet.state
        node, gpus, shape, team = state.held[slot].tolist()
        pod = state.shapes[shape]
        state.nodes[node, [CPU, MEMORY]] -= sign * pod[[POD_CPU, POD_MEMORY]]
        mask = (gpus >> np.arange(state.gpus.shape[1]) & 1).astype(np.bool_)
        uses = state.gpus[node]
        uses[mask, MILLI] += sign * (pod[SHARE] or GPU_MILLI)
        uses[mask, GPU_MEMORY] -= sign * pod[SHARE_MEMORY]
        in_use = uses[:, MILLI] > 0
        uses[mask, OWNER] = np.where(in_use & (pod[SHARE] > 0), team, NONE)[mask]
        idle = int(np.sum(1 << np.flatnonzero(~in_use & mask)))
        free = int(state.nodes[node, FREE]) & ~gpus | idle & int(state.nodes[node, USABLE])
        state.nodes[node, FREE] = free
        if sign < 0:
            state.held[slot, HELD_NODE] = NONE


def _next_part(parts: list[Part], pods: int) -> Part:
    """Take out the tightest part that holds all `pods`, else the largest."""
    enough = (at for at, part in enumerate(parts) if part[0] >= pods)
    return parts.pop(next(enough, len(parts) - 1))


def _first_of_best(conditions: Ints, scores: Ints, fits: Bools) -> int:
    """Place in the arrays of the best that fits; between conditions, the least head decides."""
    fits = fits & (scores > REFUSED)
    if not fits.any():
        return NONE
    best = np.flatnonzero(fits & (scores == scores[fits].max()))
    keys = conditions @ KEY
    heads = {key: int((keys == key).argmax()) for key in np.unique(keys[best]).tolist()}
    key = min(heads, key=lambda each: heads[each])
    return int(best[keys[best] == key][0])


def _count(masks: Ints) -> Ints:
    """How many bits are set in each."""
    return np.bitwise_count(masks).astype(np.int64)
