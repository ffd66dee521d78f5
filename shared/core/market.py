"""One pod at its best place in a flavor, by what the learned mix of demand leaves useful.

Of all conditions that nodes (or shared GPUs of the team) are in, the best is
1. the one whose useless GPU grows least, in bins of 400 milli: fragments (FGD, ATC'23) and the
   price of room that scarce classes need, which counts only when it is a whole bin;
2. the one whose CPU deficit grows least, in bins of 2 cores: no GPU is left without CPU;
3. the node of the least seeded rank.
Bins and keys: placement.md 3.2 (rule X); prices and the choice of the CPU mean are what makes it
adapt (core/waste.py). Until the mix is known (core/mix.py) `find` answers nothing, and the tightest
fit of core/search.py decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

import numpy as np

from shared.core.cells import REFUSED, Cells, Ints, Member
from shared.core.demand import PodDemand
from shared.core.devices import takes_share
from shared.core.kind import Kind
from shared.core.mix import DemandMix
from shared.core.node_state import NodeState
from shared.core.units import GPU_MILLI
from shared.core.waste import CORES, GPUS, MILLI_STEP, PART_MILLI, PARTS, Floats, Waste, waste_of

BIN_MILLI: Final = 400
"""Differences of useless GPU below this are noise (placement.md 3.2, sensitivity)."""
CPU_BIN_MILLI: Final = 2_000
CPU_STEP_MILLI: Final = 2_000
"""Step in which cells tell free CPU apart."""
FIRST_KEY: Final = 1 << 20
WITHOUT_GPU: Final = FIRST_KEY >> 1
"""Bonus, below one bin, of nodes that have no GPU at all: CPU work goes there first."""
SCORES_MAX: Final = 2048
"""Classes whose scores are kept; more are worked out again."""

ScoreKey = tuple[int, int, int, int, tuple[Kind, ...]]


class Scores:
    """The scores of one class of pods, for the cells there were when it was last asked."""

    __slots__ = ("known", "values")

    def __init__(self) -> None:
        self.known = 0
        self.values: Ints = np.empty(0, dtype=np.int64)


class Market:
    """All of one flavor: the mix asked of it, and its nodes and shared GPUs in cells."""

    def __init__(self) -> None:
        self.mix = DemandMix()
        self.nodes = Cells()
        self.shared: dict[str, Cells] = {}
        """By team: a shared GPU has one owner."""
        self._kinds: list[Kind] = []
        self._numbers: dict[Kind, int] = {}
        self._node_at: dict[NodeState, tuple[int, Member]] = {}
        self._gpus_at: dict[NodeState, list[tuple[Cells, int, Member]]] = {}
        self._changed: dict[NodeState, None] = {}
        """Nodes whose cells are out of step."""
        self._waste: Waste | None = None
        self._version = 0
        self._scores: dict[tuple[Cells, ScoreKey], Scores] = {}

    # ── the index ──

    def change(self, node: NodeState) -> None:
        """A node changed; its cells follow when they are next needed."""
        self._changed[node] = None

    def _move(self, node: NodeState) -> None:
        """Bring the cells in step with a node that changed. O(GPUs)."""
        self._take_out(node)
        if node.kind is None or not node.schedulable:
            return
        number = self._number(node.kind)
        step = node.free_cpu_milli // CPU_STEP_MILLI
        parts = [
            (index, GPU_MILLI - use.milli, use.team)
            for index, use in node.uses.items()
            if use.milli and use.offers_shares
        ]
        parts_milli = sum(free for _, free, _ in parts)
        condition = (number, node.free_count, parts_milli // PART_MILLI, step)
        member = (node.rank, -1, node)
        self._node_at[node] = (self.nodes.put(condition, member), member)
        if parts:
            all_milli = node.free_count * GPU_MILLI + parts_milli
            places = self._gpus_at[node] = []
            for index, free, team in parts:
                cells = self.shared.get(team)
                if cells is None:
                    cells = self.shared[team] = Cells()
                rest = (all_milli - free) // PART_MILLI
                member = (node.rank, index, node)
                at = cells.put((number, free // MILLI_STEP, rest, step), member)
                places.append((cells, at, member))

    def leave(self, node: NodeState) -> None:
        """Take a node out of its cells: it is gone, or of another flavor."""
        self._changed.pop(node, None)
        self._take_out(node)

    def _take_out(self, node: NodeState) -> None:
        old = self._node_at.pop(node, None)
        if old is not None:
            self.nodes.take(*old)
            for cells, number, member in self._gpus_at.pop(node, ()):
                cells.take(number, member)

    # ── the answer ──

    def find(
        self, kinds: tuple[Kind, ...], demand: PodDemand, team: str, exclude: Container[NodeState]
    ) -> tuple[NodeState, int] | None:
        """(node, its shared GPU or -1) for one pod without MIG; None if nothing fits."""
        for node in self._changed:
            self._move(node)
        self._changed.clear()
        waste = self._waste_now()
        scores = self._scores_of(waste, self.nodes, kinds, demand)
        on_node = self.nodes.best(scores, demand.cpu_milli, demand.memory_mib, exclude)
        cells = self.shared.get(team) if demand.milli else None
        if cells is not None:
            scores = self._scores_of(waste, cells, kinds, demand)
            on_gpu = cells.best(
                scores,
                demand.cpu_milli,
                demand.memory_mib,
                exclude,
                lambda node, gpu: takes_share(node.uses[gpu], demand, team),
            )
            if on_gpu is not None and (on_node is None or on_gpu[0] >= on_node[0]):
                return on_gpu[1][2], on_gpu[1][1]
        return None if on_node is None else (on_node[1][2], -1)

    @property
    def learned(self) -> bool:
        """Whether there is a mix to go by."""
        return self.mix.version > 0

    def _waste_now(self) -> Waste:
        if self._waste is None or self._version != self.mix.version:
            self._version = self.mix.version
            self._waste = waste_of(self.mix.counts, self._kinds)
            self._scores.clear()
        return self._waste

    def _scores_of(
        self, waste: Waste, cells: Cells, kinds: tuple[Kind, ...], demand: PodDemand
    ) -> Ints:
        key = (demand.gpus, demand.milli, demand.cpu_milli, demand.share_memory_mib, kinds)
        scores = self._scores.get((cells, key))
        if scores is None:
            if len(self._scores) >= SCORES_MAX:
                self._scores.clear()
            scores = self._scores[cells, key] = Scores()
        if scores.known < cells.size:
            conditions = cells.conditions[scores.known : cells.size]
            rule = _on_node if cells is self.nodes else _on_gpu
            fresh = rule(waste, self._columns(kinds, demand), conditions, demand)
            if len(scores.values) < cells.size:
                room = np.empty(len(cells.conditions), dtype=np.int64)
                room[: scores.known] = scores.values[: scores.known]
                scores.values = room
            scores.values[scores.known : cells.size] = fresh
            scores.known = cells.size
        return scores.values

    def _columns(self, kinds: Iterable[Kind], demand: PodDemand) -> list[Kind | None]:
        """By number: the kind if the pod may run there."""
        allowed = set(kinds)
        return [
            kind
            if kind in allowed and kind.key.gpu_memory_mib >= demand.share_memory_mib
            else None
            for kind in self._kinds
        ]

    def _number(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
        return number


# ── scores of conditions ─────────────────────────────────────────────────────


def _on_node(
    waste: Waste, kinds: list[Kind | None], conditions: Ints, demand: PodDemand
) -> Ints:
    """Scores of nodes, for whole GPUs, CPU alone, or a share that opens a GPU."""
    number, free, parts, step = conditions.T
    free, parts = np.minimum(free, GPUS), np.minimum(parts, PARTS)
    cores, cores_after = _cores(step, demand)
    opened = demand.gpus or bool(demand.milli)
    after = np.maximum(free - opened, 0)
    fragments = waste.nodes[free, parts, cores] - waste.nodes[after, parts, cores_after]
    rest_milli = 0
    if demand.milli:
        rest_milli = GPU_MILLI - demand.milli
        fragments -= waste.gpu[rest_milli // MILLI_STEP, cores_after]
    free_milli = free * float(GPU_MILLI) + parts * PART_MILLI
    taken_milli = demand.gpus * GPU_MILLI + demand.milli
    deficit = waste.deficit(free_milli, cores) - waste.deficit(
        free_milli - taken_milli, cores_after
    )
    scarce = _scarce(waste, kinds, number, demand, (free, cores), (after, cores_after))
    scores = _binned(fragments, scarce, deficit)
    bare = np.array([kind is not None and not kind.key.gpus for kind in kinds])
    scores += WITHOUT_GPU * bare[number]
    return _refuse(scores, kinds, number, (free >= opened) & _has_cpu(step, demand))


def _on_gpu(
    waste: Waste, kinds: list[Kind | None], conditions: Ints, demand: PodDemand
) -> Ints:
    """Scores of GPUs that are shared already."""
    number, free, rest, step = conditions.T
    cores, cores_after = _cores(step, demand)
    after = np.maximum(free - -(-demand.milli // MILLI_STEP), 0)
    rest_gpus = rest * (PART_MILLI / GPU_MILLI)
    fragments = waste.gpu[free, cores] - waste.gpu[after, cores_after]
    fragments += rest_gpus * (waste.gpu[-1, cores] - waste.gpu[-1, cores_after])
    free_milli = rest * float(PART_MILLI) + free * MILLI_STEP
    deficit = waste.deficit(free_milli, cores) - waste.deficit(
        free_milli - demand.milli, cores_after
    )
    scores = _binned(fragments, _bound_price(waste, kinds, number, demand), deficit)
    fits = (free + 1) * MILLI_STEP > demand.milli
    return _refuse(scores, kinds, number, fits & _has_cpu(step, demand))


def _binned(fragments: Floats, scarce: Floats, deficit: Floats) -> Ints:
    """Decreases of the three amounts as one number, the first two in the higher digits."""
    first = np.floor(fragments / BIN_MILLI) + np.ceil(scarce / BIN_MILLI)
    scores: Ints = (first * FIRST_KEY + np.floor(deficit / CPU_BIN_MILLI)).astype(np.int64)
    return scores


def _scarce(
    waste: Waste,
    kinds: list[Kind | None],
    number: Ints,
    demand: PodDemand,
    before: tuple[Ints, Ints],
    after: tuple[Ints, Ints],
) -> Floats:
    """How the price of the room of a node grows; never above 0."""
    grows = _bound_price(waste, kinds, number, demand)
    for at, kind in enumerate(kinds):
        table = waste.scarce.get(kind.key.product) if kind is not None else None
        if table is not None:
            here = number == at
            grows[here] += table[after][here] - table[before][here]
    return grows


def _bound_price(
    waste: Waste, kinds: list[Kind | None], number: Ints, demand: PodDemand
) -> Floats:
    """The price of the GPU itself, where its product is scarce."""
    gpus = demand.gpus + demand.milli / GPU_MILLI
    prices = np.array(
        [0.0 if kind is None else waste.price_per_gpu.get(kind.key.product, 0.0) for kind in kinds]
    )
    price: Floats = -gpus * prices[number]
    return price


def _cores(step: Ints, demand: PodDemand) -> tuple[Ints, Ints]:
    """Whole cores before and after; a node that has just enough is taken to have it."""
    before_milli = np.maximum(step * CPU_STEP_MILLI, demand.cpu_milli)
    after_milli = before_milli - demand.cpu_milli
    return np.minimum(before_milli // 1000, CORES - 1), np.minimum(after_milli // 1000, CORES - 1)


def _has_cpu(step: Ints, demand: PodDemand) -> Ints:
    enough: Ints = (step + 1) * CPU_STEP_MILLI > demand.cpu_milli
    return enough


def _refuse(scores: Ints, kinds: list[Kind | None], number: Ints, fits: Ints) -> Ints:
    allowed = np.array([kind is not None for kind in kinds])
    kept: Ints = np.where(fits & allowed[number], scores, REFUSED)
    return kept
