"""One pod at its best place in a flavor, by what the learned mix of demand leaves useful.

Of all conditions that nodes (or shared GPUs of the team) are in, the best is
1. the one whose useless GPU grows least, in bins of 500 milli: fragments (FGD, ATC'23) and the
   price of room that scarce classes need, which counts only when it is a whole bin;
2. the one whose CPU deficit grows least, in bins of 2 cores: no GPU is left without CPU;
3. a node that has the image already (core/images.py), if one is asked for and any has it;
4. the node of the least seeded rank.
Bins and keys: placement.md 3.2 (rule X); prices and the choice of the CPU mean make it adapt
(core/waste.py). Until the mix is known (`learned`, core/mix.py) nobody asks here: the tightest
fit of core/search.py decides.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.cells import REFUSED, TIE, Cells, Conditions, Ints, Member
from shared.core.demand import PodDemand
from shared.core.devices import takes_share
from shared.core.fill_order import fill_order, order_by, prefix_of, with_rank
from shared.core.images import LOOKED_MAX, ImageIndex, has_image
from shared.core.kind import Kind
from shared.core.mig_pool import MigPools
from shared.core.mix import DemandMix
from shared.core.node_state import NodeState
from shared.core.topology import Domain
from shared.core.units import GPU_MILLI
from shared.core.waste import CORES, GPUS, MILLI_STEP, PART_MILLI, PARTS, Floats, Waste, waste_of

Bools = NDArray[np.bool_]

BIN_MILLI: Final = 500
"""Differences of useless GPU below this are noise (placement.md 3.2: 100 to 400 are alike)."""
CPU_BIN_MILLI: Final = 2_000
CPU_STEP_MILLI: Final = 2_000
"""Step in which cells tell free CPU apart."""
SHARED_CPU_STEP_MILLI: Final = 4_000
"""The same for shared GPUs, of which there are many conditions."""
REST_MILLI: Final = 2_000
"""Step in which cells of shared GPUs tell the free GPU beside it apart."""
FIRST_KEY: Final = TIE << 10
FIRST_MAX: Final = 1000
SECOND_MAX: Final = 255
WITHOUT_GPU: Final = FIRST_KEY >> 1
"""Bonus, below one bin, of nodes that have no GPU at all: CPU work goes there first."""
KINDS_MAX: Final = 64
"""Kinds numbered before it is asked whether most of them are gone."""
DOMAINS_MAX: Final = 1 << 16
"""Domains of which is known how their nodes are in order; then it is found out anew."""
SCORES_MAX: Final = 2048
"""Classes whose scores are kept; more are worked out again."""

ScoreKey = tuple[bool, int, int, int, int, tuple[Kind, ...]]


class Scores:
    """The scores of one class of pods, for the cells there were when it was last asked."""

    __slots__ = ("allowed", "known", "values")

    def __init__(self, allowed: Bools) -> None:
        self.allowed = allowed
        self.known = 0
        self.values: Ints = np.empty(0, dtype=np.int64)


class Market:
    """All of one flavor: the mix asked of it, and its nodes and shared GPUs in cells."""

    def __init__(self) -> None:
        self.mix = DemandMix()
        self.pools = MigPools(self.mix.profiles)
        """Its GPUs in MIG mode."""
        self.images = ImageIndex()
        self._version = 0
        self._changed: dict[NodeState, None] = {}
        """Nodes whose cells are out of step ..."""
        self._reordered: dict[Domain, None] = {}
        """... and domains whose nodes may come in another order in theirs."""
        self._ordered: dict[Domain, int] = {}
        """By what domain their nodes are in order, as far as is known."""
        self._empty()

    def _empty(self) -> None:
        """No kinds, no cells."""
        self._nodes = Cells()
        self._conditions = Conditions()
        self._shared: dict[str, Cells] = {}
        """By team: a shared GPU has one owner."""
        self._shared_conditions = Conditions()
        self._kinds: list[Kind] = []
        self._numbers: dict[Kind, int] = {}
        self._steps: list[int] = []
        """By kind: the largest step of free CPU."""
        self._kinds_max = KINDS_MAX
        self._places: dict[NodeState, dict[int, tuple[Cells, int, Member]]] = {}
        """By node, and by shared GPU or -1 for the node itself: where it is."""
        self._waste: Waste | None = None
        self._scores: dict[ScoreKey, Scores] = {}

    # ── the index ──

    def change(self, node: NodeState) -> None:
        """A node changed; its cells follow when they are next needed."""
        self._changed[node] = None

    def reorder(self, domains: Mapping[Domain, None]) -> None:
        """The nodes of `domains` come in another order now; their cells follow as above."""
        self._reordered.update(domains)

    def leave(self, node: NodeState) -> None:
        """Take a node out of its cells: it is gone, or of another flavor."""
        self._changed.pop(node, None)
        for cells, number, member in self._places.pop(node, {}).values():
            cells.take(number, member)

    def follow(self) -> None:
        """Bring the cells in step with the nodes that changed. O(GPUs) for each."""
        if not self.learned:
            return
        if len(self._kinds) > self._kinds_max:
            self._forget_kinds()
        for node in self._changed:
            self._follow_node(node)
        self._changed.clear()
        for domain in self._reordered:
            order = order_by(domain)
            if self._ordered.get(domain) != order:
                self._ordered[domain] = order
                self._reorder(domain)
        self._reordered.clear()
        if len(self._ordered) > DOMAINS_MAX:
            self._ordered.clear()

    def _follow_node(self, node: NodeState) -> None:
        places = self._places.setdefault(node, {})
        now = self._places_of(node)
        for index in [index for index in places if index not in now]:
            cells, number, member = places.pop(index)
            cells.take(number, member)
        order = fill_order(node)
        for index, (cells, number) in now.items():
            member = (order, index, node)
            old = places.get(index)
            if old is not None:
                if old == (cells, number, member):
                    cells.raise_bounds(number, node)
                    continue
                old[0].take(old[1], old[2])
            cells.put(number, member)
            places[index] = (cells, number, member)

    def _reorder(self, domain: Domain) -> None:
        prefixes: dict[tuple[Domain | None, bool], int] = {}
        for node in domain.nodes():
            kin = (node.domain, node.whole)
            prefix = prefixes.get(kin)
            if prefix is None:
                prefix = prefixes[kin] = prefix_of(node.domain, whole=node.whole)
            order = with_rank(prefix, node)
            places = self._places.get(node)
            if places and next(iter(places.values()))[2][0] != order:
                self._move(node, places, order)

    @staticmethod
    def _move(node: NodeState, places: dict[int, tuple[Cells, int, Member]], order: int) -> None:
        """All places of a node are in one order."""
        for index, (cells, number, member) in places.items():
            cells.take(number, member)
            moved = (order, index, node)
            cells.put(number, moved)
            places[index] = (cells, number, moved)

    def _forget_kinds(self) -> None:
        """Number the kinds anew if most of those numbered have no node left. O(nodes), rarely."""
        living = sum(kind.nodes > 0 for kind in self._kinds)
        if 2 * living < len(self._kinds):
            self._changed |= dict.fromkeys(self._places)
            self._empty()
        self._kinds_max = max(KINDS_MAX, 2 * living)

    def _places_of(self, node: NodeState) -> dict[int, tuple[Cells, int]]:
        """By shared GPU, or -1 for the node: where it belongs now."""
        if node.kind is None or not node.schedulable:
            return {}
        kind = self._number(node.kind)
        parts = [
            (index, GPU_MILLI - use.milli, use.team)
            for index, use in node.uses.items()
            if 0 < use.milli < GPU_MILLI and use.offers_shares
        ]
        parts_milli = sum([free for _, free, _ in parts])
        step = node.free_cpu_milli // CPU_STEP_MILLI
        row = (kind, node.free_count, parts_milli // PART_MILLI)
        now = {-1: (self._nodes, self._conditions.number(row, step, self._steps[kind]))}
        all_milli = node.free_count * GPU_MILLI + parts_milli
        step = node.free_cpu_milli // SHARED_CPU_STEP_MILLI
        for index, free, team in parts:
            cells = self._shared.get(team)
            if cells is None:
                cells = self._shared[team] = Cells()
            row = (kind, free // MILLI_STEP, (all_milli - free) // REST_MILLI)
            now[index] = (cells, self._shared_conditions.number(row, step, 0))
        return now

    # ── the answer ──

    def find(
        self, kinds: tuple[Kind, ...], demand: PodDemand, team: str, exclude: Container[NodeState]
    ) -> tuple[NodeState, int] | None:
        """(node, its shared GPU or -1) for one pod without MIG; None if nothing fits."""
        self.follow()
        if not self._kinds:
            return None
        waste = self._waste_now()
        scores = self._scores_of(waste, self._conditions, kinds, demand)
        best = self._nodes.best(scores, demand.cpu_milli, demand.memory_mib, exclude)
        if best is not None and demand.image in self.images:
            best = self._having_image((self._nodes, scores), best, demand, team, exclude)
        cells = self._shared.get(team) if demand.milli else None
        if cells is not None:
            scores = self._scores_of(waste, self._shared_conditions, kinds, demand)
            on_gpu = cells.best(
                scores,
                demand.cpu_milli,
                demand.memory_mib,
                exclude,
                lambda node, gpu: takes_share(node.uses[gpu], demand, team),
            )
            if on_gpu is not None and demand.image in self.images:
                on_gpu = self._having_image((cells, scores), on_gpu, demand, team, exclude)
            if on_gpu is not None and (best is None or on_gpu[0] >= best[0]):
                best = on_gpu
        return None if best is None else (best[1][2], best[1][1])

    def _having_image(
        self,
        where: tuple[Cells, Ints],
        best: tuple[int, Member],
        demand: PodDemand,
        team: str,
        exclude: Container[NodeState],
    ) -> tuple[int, Member]:
        """A member as good as the best whose node has the image, or the best itself."""
        (cells, scores), (score, first) = where, best

        def suits(member: Member) -> bool:
            _, gpu, node = member
            return (
                has_image(node, demand.image)
                and node.whole == first[2].whole
                and node.free_cpu_milli >= demand.cpu_milli
                and node.free_memory_mib >= demand.memory_mib
                and node not in exclude
                and (gpu < 0 or takes_share(node.uses[gpu], demand, team))
            )

        looked = list(islice(cells.of_score(scores, score), LOOKED_MAX))
        for node in self.images.holders(demand.image):
            for at, number, member in self._places.get(node, {}).values():
                if at is cells and scores[number] == score:
                    looked.append(member)
        found = min(filter(suits, looked), default=first)
        return score, found

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
        self, waste: Waste, conditions: Conditions, kinds: tuple[Kind, ...], demand: PodDemand
    ) -> Ints:
        """Scores by the number of the condition; worked out for those that are new."""
        rule = score_nodes if conditions is self._conditions else score_gpus
        key = (
            rule is score_nodes,
            demand.gpus,
            demand.milli,
            demand.cpu_milli,
            demand.share_memory_mib,
            kinds,
        )
        scores = self._scores.get(key)
        if scores is None:
            if len(self._scores) >= SCORES_MAX:
                self._scores.clear()
            scores = self._scores[key] = Scores(self._allowed(kinds, demand))
        known, size = scores.known, conditions.size
        if known < size:
            fresh = rule(waste, scores.allowed, conditions.columns[known:size], demand)
            if len(scores.values) < size:
                room = np.empty(len(conditions.columns), dtype=np.int64)
                room[:known] = scores.values[:known]
                scores.values = room
            scores.values[known:size] = fresh
            scores.known = size
        return scores.values

    def _allowed(self, kinds: tuple[Kind, ...], demand: PodDemand) -> Bools:
        """(kinds,) where the pod may run."""
        return np.array(
            [
                kind in kinds and kind.key.gpu_memory_mib >= demand.share_memory_mib
                for kind in self._kinds
            ]
        )

    def _number(self, kind: Kind) -> int:
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
            self._steps.append(kind.key.cpu_milli // CPU_STEP_MILLI)
            self._waste = None
        return number


# ── scores of conditions ─────────────────────────────────────────────────────


def score_nodes(waste: Waste, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
    """Scores of nodes, for whole GPUs, CPU alone, or a share that opens a GPU."""
    number, free, parts, step = conditions.T
    free, parts = np.minimum(free, GPUS), np.minimum(parts, PARTS)
    cores, cores_after = _cores(step, demand)
    opened = demand.gpus or int(demand.milli > 0)
    after = np.maximum(free - opened, 0)
    fragments = waste.nodes[free, parts, cores] - waste.nodes[after, parts, cores_after]
    if demand.milli:
        fragments -= waste.gpu[(GPU_MILLI - demand.milli) // MILLI_STEP, cores_after]
    product = waste.product[number]
    scarce = waste.scarce[product, after, cores_after] - waste.scarce[product, free, cores]
    scarce -= _bound_milli(waste, product, demand)
    deficit = _deficit(waste, free * GPU_MILLI + parts * PART_MILLI, (cores, cores_after), demand)
    scores = _binned(fragments, scarce, deficit) + WITHOUT_GPU * waste.bare[number]
    fits = allowed[number] & (free >= opened) & _has_cpu(step, demand)
    return np.where(fits, scores, REFUSED)


def score_gpus(waste: Waste, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
    """Scores of GPUs that are shared already."""
    number, free, rest, step = conditions.T
    step, rest = step * (SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI), rest * (REST_MILLI // GPU_MILLI)
    cores, cores_after = _cores(step, demand)
    after = np.maximum(free - -(-demand.milli // MILLI_STEP), 0)
    fragments = waste.gpu[free, cores] - waste.gpu[after, cores_after]
    fragments += rest * (waste.gpu[-1, cores] - waste.gpu[-1, cores_after])
    scarce = -_bound_milli(waste, waste.product[number], demand)
    deficit = _deficit(waste, rest * GPU_MILLI + free * MILLI_STEP, (cores, cores_after), demand)
    scores = _binned(fragments, scarce, deficit)
    fits = allowed[number] & ((free + 1) * MILLI_STEP > demand.milli)
    fits &= (step + SHARED_CPU_STEP_MILLI // CPU_STEP_MILLI) * CPU_STEP_MILLI > demand.cpu_milli
    return np.where(fits, scores, REFUSED)


def _binned(fragments: Floats, scarce: Floats, deficit: Floats) -> Ints:
    """Decreases of the three amounts as one number, the first two in the higher digits.

    Prices are rounded towards zero: what is not scarce must not disturb the rest.
    """
    first = np.floor(fragments / BIN_MILLI) + np.ceil(scarce / BIN_MILLI)
    second = np.floor(deficit / CPU_BIN_MILLI)
    first = np.clip(first, -FIRST_MAX, FIRST_MAX).astype(np.int64)
    scores: Ints = (
        first * FIRST_KEY + np.clip(second, -SECOND_MAX, SECOND_MAX).astype(np.int64) * TIE
    )
    return scores


def _bound_milli(waste: Waste, product: Ints, demand: PodDemand) -> Floats:
    """The price of the GPU itself, where pods are bound to its product."""
    price: Floats = waste.price_per_gpu[product] * (demand.gpus + demand.milli / GPU_MILLI)
    return price


def _deficit(
    waste: Waste, free_milli: Ints, cores: tuple[Ints, Ints], demand: PodDemand
) -> Floats:
    """By how much the CPU that is missing beside free GPUs decreases."""
    per_milli = waste.cpu_per_gpu_milli / GPU_MILLI
    before = np.maximum(0, free_milli * per_milli - cores[0] * 1000)
    left_milli = free_milli - (demand.gpus * GPU_MILLI + demand.milli)
    decrease: Floats = before - np.maximum(0, left_milli * per_milli - cores[1] * 1000)
    return decrease


def _cores(step: Ints, demand: PodDemand) -> tuple[Ints, Ints]:
    """Whole cores before and after; a node that has just enough is taken to have it."""
    before_milli = np.maximum(step * CPU_STEP_MILLI, demand.cpu_milli)
    after_milli = before_milli - demand.cpu_milli
    return np.minimum(before_milli // 1000, CORES - 1), np.minimum(after_milli // 1000, CORES - 1)


def _has_cpu(step: Ints, demand: PodDemand) -> Bools:
    enough: Bools = (step + 1) * CPU_STEP_MILLI > demand.cpu_milli
    return enough
