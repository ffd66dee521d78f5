"""Builds the arrays of one flavor from a `Cluster`, and numbers teams and shapes of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from shared.core.cluster import Cluster
from shared.core.demand import PodDemand
from shared.core.fill_order import order_of_block
from shared.core.gpu_use import GpuUse
from shared.core.kernels.arrays import (
    BLOCK_ORDER,
    BOARD,
    CHILDREN,
    CPU,
    DOMAIN_COLUMNS,
    FREE,
    GPU_COLUMNS,
    GPU_MEMORY,
    HELD_COLUMNS,
    KIND,
    LEVELS,
    MEMORY,
    MILLI,
    NODE_COLUMNS,
    NODE_POSITION,
    NODES_FROM,
    NODES_TO,
    NONE,
    OTHERS_WHOLE,
    OWNER,
    PATH,
    POSITION,
    SCORED_AS,
    SHAPE_COLUMNS,
    USABLE,
    WHOLE,
    WORKS,
    Ints,
    State,
    Tables,
)
from shared.core.kernels.scope import is_plain
from shared.core.kind import Kind
from shared.core.node_links import LinkTable
from shared.core.node_state import NodeState
from shared.core.scoring import pick_gpus
from shared.core.topology import LEVELS as SPANS
from shared.core.topology import Domain, chain
from shared.core.waste import Waste

GPUS_MAX: Final = 8
"""GPUs of a node: the choice among them is a table over all masks."""
SHAPES: Final = 256
SLOTS: Final = 1024


class Fleet:
    """One flavor of a cluster at a moment. It does not follow the cluster afterwards."""

    def __init__(self, cluster: Cluster, flavor: str) -> None:
        """Raises ValueError for a node with more than `GPUS_MAX` GPUs. O(cluster)."""
        self.kinds = [cluster.kinds[key] for key in sorted(cluster.kinds) if key.flavor == flavor]
        numbers = {id(kind): number for number, kind in enumerate(self.kinds)}
        of_flavor = (node for node in cluster.nodes.values() if id(node.kind) in numbers)
        self.nodes = sorted(of_flavor, key=lambda node: (node.rank, node.name))
        self.teams: dict[str, int] = {}
        self.shapes: dict[Hashable, int] = {}
        """By what `shape` was given."""
        self._scored: dict[Hashable, int] = {}
        """The first shape, by all that its scores depend on."""
        self.waste: Waste | None = None
        self.tables = no_tables()
        self.state = self._state(numbers)

    def team(self, name: str) -> int:
        """The number of a team, the same from now on."""
        return self.teams.setdefault(name, len(self.teams))

    def shape(self, demand: PodDemand, kinds: Collection[Kind]) -> int:
        """The number of pods like `demand` that may run on `kinds`, one tier.

        That the back-ends decide for them (kernels/scope.py) is up to the caller.
        """
        assert is_plain(demand), demand
        key = (demand.shape, frozenset(map(id, kinds)))
        number = self.shapes.get(key)
        if number is None:
            number = self.shapes[key] = len(self.shapes)
            if number == len(self.state.shapes):
                self._double_shapes()
            self.state.shapes[number] = (
                demand.gpus,
                demand.milli,
                demand.share_memory_mib,
                demand.cpu_milli,
                demand.memory_mib,
                NONE,
                number,
            )
            self.state.allowed[number] = [
                kind in kinds and kind.key.gpu_memory_mib >= demand.share_memory_mib
                for kind in self.kinds
            ]
            allowed = self.state.allowed[number].tobytes()
            scored = (demand.gpus, demand.milli, demand.cpu_milli, allowed)
            self.state.shapes[number, SCORED_AS] = self._scored.setdefault(scored, number)
        return number

    def learn(self, waste: Waste) -> None:
        """Go by these tables from now on; `waste_of` makes them for `self.kinds`."""
        self.waste = waste
        self.tables = Tables(
            nodes=np.ascontiguousarray(waste.nodes),
            gpu=np.ascontiguousarray(waste.gpu),
            scarce=waste.scarce[waste.product],
            rests=waste.rests,
            of_kind=np.column_stack((waste.price_per_gpu[waste.product], waste.bare)).astype(
                float
            ),
            cpu_per_gpu_milli=np.array([waste.cpu_per_gpu_milli], dtype=float),
        )

    def make_slots(self, slots: int) -> None:
        """Make room for slots 0 to `slots` - 1."""
        held = self.state.held
        missing = slots - len(held)
        if missing > 0:
            more = np.full((max(missing, len(held)), HELD_COLUMNS), NONE, dtype=np.int64)
            self.state = self.state._replace(held=np.concatenate((held, more)))

    def _double_shapes(self) -> None:
        shapes, allowed = self.state.shapes, self.state.allowed
        self.state = self.state._replace(
            shapes=np.concatenate((shapes, np.zeros_like(shapes))),
            allowed=np.concatenate((allowed, np.zeros_like(allowed))),
        )

    def _state(self, numbers: dict[int, int]) -> State:
        indexes = (index for node in self.nodes for index in node.uses)
        width = 1 + max(indexes, default=0)
        if width > GPUS_MAX:
            raise ValueError(f"a node has {width} GPUs: the kernels take at most {GPUS_MAX}")
        boards = _Boards(width)
        domains = _domains(self.nodes)
        nodes = np.zeros((len(self.nodes), NODE_COLUMNS), dtype=np.int64)
        gpus = np.zeros((len(self.nodes), width, GPU_COLUMNS), dtype=np.int64)
        gpus[:, :, OWNER] = NONE
        for row, uses, node in zip(nodes, gpus, self.nodes, strict=True):
            row[KIND], row[WORKS] = numbers[id(node.kind)], node.schedulable
            row[CPU], row[MEMORY] = node.free_cpu_milli, node.free_memory_mib
            row[USABLE], row[FREE], row[BOARD] = _usable(node), node.free_mask, boards.number(node)
            row[WHOLE], row[BLOCK_ORDER] = _whole(node), _block_order(node)
            for index, use in node.uses.items():
                uses[index, MILLI], uses[index, GPU_MEMORY] = use.milli, use.free_memory_mib
                uses[index, OWNER] = self.team(use.team) if use.shared else NONE
        nodes[:, PATH:] = _paths(self.nodes, domains)
        table, order = _table(nodes[:, PATH:], len(domains))
        parts = _parts(self.nodes, domains)
        table[:, CHILDREN] = np.cumsum([0, *map(len, parts)])
        table[:-1, OTHERS_WHOLE] = _others_whole(self.nodes, domains)
        places = _places(self.nodes, domains)
        nodes[-1 - places[places < 0], NODE_POSITION] = np.flatnonzero(places < 0)
        table[places[places >= 0], POSITION] = np.flatnonzero(places >= 0)
        levels = [SPANS.index(domain.level) - 1 for domain in domains]
        kinds = [(kind.cpu_per_gpu, kind.key.cpu_milli) for kind in self.kinds]
        return State(
            nodes=nodes,
            gpus=gpus,
            picks=boards.table(),
            kinds=np.array(kinds, dtype=np.int64).reshape(len(kinds), 2),
            shapes=np.zeros((SHAPES, SHAPE_COLUMNS), dtype=np.int64),
            allowed=np.zeros((SHAPES, len(kinds)), dtype=np.bool_),
            domains=table,
            levels=np.searchsorted(levels, np.arange(LEVELS + 1)).astype(np.int64),
            children=np.array([part for each in parts for part in each], dtype=np.int64),
            order=order,
            places=places,
            held=np.full((SLOTS, HELD_COLUMNS), NONE, dtype=np.int64),
        )


class _Boards:
    """Tables of which GPUs to take, one for each arrangement of GPUs; made by the core's rule."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._numbers: dict[tuple[str, tuple[tuple[int, int], ...]], int] = {}
        self._tables: list[Ints] = []

    def number(self, node: NodeState) -> int:
        """The row for `node`."""
        layout = tuple(
            sorted((index, use.gpu.numa) for index, use in node.uses.items() if use.gpu)
        )
        key = (node.inventory.links if node.inventory else "", layout)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._tables)
            self._tables.append(self._picks(node.uses, node.links))
        return number

    def table(self) -> Ints:
        """(boards, masks, counts)."""
        shape = (1 << self._gpus, self._gpus + 1)
        return np.stack(self._tables) if self._tables else np.zeros((1, *shape), dtype=np.int64)

    def _picks(self, uses: dict[int, GpuUse], links: LinkTable | None) -> Ints:
        table = np.zeros((1 << self._gpus, self._gpus + 1), dtype=np.int64)
        present = sum(1 << index for index, use in uses.items() if use.gpu)
        for mask in range(1 << self._gpus):
            if mask & ~present:
                continue
            node: Any = SimpleNamespace(uses=uses, free_mask=mask, links=links)
            for count in range(1, mask.bit_count() + 1):
                table[mask, count] = sum(1 << gpu for gpu in pick_gpus(node, count))
        return table


def _usable(node: NodeState) -> int:
    return sum(
        1 << index
        for index, use in node.uses.items()
        if use.usable and use.gpu is not None and not use.gpu.mig
    )


def _whole(node: NodeState) -> int:
    if node.whole_count < 0:
        return NONE
    return sum(1 << index for index, use in node.uses.items() if use.gpu)


def _block_order(node: NodeState) -> int:
    if node.domain is None:
        return NONE
    return next((order_of_block(domain) for domain in chain(node) if domain.is_block), 0)


def _others_whole(nodes: list[NodeState], domains: list[Domain]) -> list[int]:
    """By domain: its wholly free nodes that are not among `nodes`."""
    ours = Counter(domain for node in nodes if node.whole for domain in chain(node))
    return [domain.whole - ours[domain] for domain in domains]


def _places(nodes: list[NodeState], domains: list[Domain]) -> Ints:
    """All of them in order of rank, as `State.places` has them."""
    ranks = [(node.rank, -1 - number) for number, node in enumerate(nodes)]
    ranks += [(domain.rank, number) for number, domain in enumerate(domains)]
    return np.array([place for _, place in sorted(ranks)], dtype=np.int64)


def _domains(nodes: list[NodeState]) -> list[Domain]:
    """All domains that hold a node, level by level and by rank."""
    return sorted(
        {domain for node in nodes for domain in chain(node)},
        key=lambda domain: (SPANS.index(domain.level), domain.rank, domain.path),
    )


def _paths(nodes: list[NodeState], domains: list[Domain]) -> Ints:
    """(n, LEVELS) the domain of each node at each level."""
    numbers = {id(domain): number for number, domain in enumerate(domains)}
    paths = np.full((len(nodes), LEVELS), NONE, dtype=np.int64)
    for path, node in zip(paths, nodes, strict=True):
        for domain in chain(node):
            path[SPANS.index(domain.level) - 1] = numbers[id(domain)]
    return paths


def _parts(nodes: list[NodeState], domains: list[Domain]) -> list[list[int]]:
    """The parts of each domain by rank, as `State.children` has them."""
    numbers = {id(domain): number for number, domain in enumerate(domains)}
    parts: list[list[tuple[int, int]]] = [[] for _ in domains]
    for number, node in enumerate(nodes):
        if node.domain is not None:
            parts[numbers[id(node.domain)]].append((node.rank, -1 - number))
    for number, domain in enumerate(domains):
        if domain.parent is not None:
            parts[numbers[id(domain.parent)]].append((domain.rank, number))
    return [[part for _, part in sorted(each)] for each in parts]


def _table(paths: Ints, domains: int) -> tuple[Ints, Ints]:
    """(D + 1, DOMAIN_COLUMNS) with the nodes of each domain, and the order that they refer to."""
    table = np.zeros((domains + 1, DOMAIN_COLUMNS), dtype=np.int64)
    # By the widest level first: the nodes of each domain then lie side by side.
    order = np.lexsort(tuple(paths.T)).astype(np.int64)
    for column in paths[order].T:
        found, begins, counts = np.unique(column, return_index=True, return_counts=True)
        inside = found != NONE
        table[found[inside], NODES_FROM] = begins[inside]
        table[found[inside], NODES_TO] = (begins + counts)[inside]
    return table, order


def no_tables() -> Tables:
    """Before anything is learned."""
    cube = np.zeros((1, 1, 1))
    return Tables(cube, cube[0], cube, cube[0, 0], cube[0], cube[0, 0])
