"""The fabric as a tree of domains, from the labels of the nodes.

zone > block > rack > NVLink domain > node. A node without a label at some level is alone there and
hangs directly under its next wider domain. A domain is named by its path, so equal rack
names in two zones are two racks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.ordering_ties import node_rank
from shared.core.model.nouns import Level, Node

LEVELS: Final = (Level.NODE, Level.NVLINK_DOMAIN, Level.RACK, Level.BLOCK, Level.ZONE)
"""From the tightest to the widest."""
WHOLE_MAX: Final = 63
"""Wholly free nodes of a domain are told apart up to this many."""


class Fabric:
    """All domains of the fleet."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.domains: dict[tuple[Level, tuple[str, ...]], Domain] = {}
        self.reordered: dict[Domain, None] = {}
        """Domains with nodes that come in another fill order since the cluster last looked."""

    def put(self, state: NodeState, node: Node) -> None:
        """Hang `state` under the domains that `node` names."""
        domain: Domain | None = None
        for level, path in paths_of(node):
            domain = self._domain(level, path, domain)
        if domain is not state.domain:
            # Into the new place first: a domain that both share must not become empty.
            if domain is not None:
                domain.children[f"node {state.name}"] = state
            self.remove(state)
            state.domain = domain
            self._count_size(state, 1)

    def remove(self, state: NodeState) -> None:
        """Take `state` out; domains that are empty then cease to be."""
        self._count_size(state, -1)
        if state.whole:
            state.whole = False
            self._count_whole(state, -1)
        domain = state.domain
        state.domain = None
        key = f"node {state.name}"
        while domain is not None:
            del domain.children[key]
            if domain.children:
                return
            del self.domains[domain.level, domain.path]
            key = f"domain {'/'.join(domain.path)}"
            domain = domain.parent

    def follow(self, state: NodeState) -> None:
        """Count `state` as wholly free, or no longer, if that changed. O(levels)."""
        whole = state.free_count == state.whole_count
        if whole != state.whole:
            state.whole = whole
            self._count_whole(state, 1 if whole else -1)

    def _count_whole(self, state: NodeState, change: int) -> None:
        domain = state.domain
        while domain is not None:
            domain.whole += change
            if domain.fills and domain.whole <= WHOLE_MAX:
                self.reordered[domain] = None
            domain = domain.parent

    def _count_size(self, state: NodeState, change: int) -> None:
        for domain in chain(state):
            before = size_step(domain.size)
            domain.size += change
            if domain.is_block and size_step(domain.size) != before:
                self.reordered[domain] = None

    def _domain(self, level: Level, path: tuple[str, ...], parent: Domain | None) -> Domain:
        domain = self.domains.get((level, path))
        if domain is None:
            name = "/".join(path)
            domain = Domain(level, path, parent, node_rank(self._seed, f"{level} {name}"))
            self.domains[level, path] = domain
            if parent is not None:
                parent.children[f"domain {name}"] = domain
        return domain


def paths_of(node: Node) -> Iterator[tuple[Level, tuple[str, ...]]]:
    """The domains that `node` names, from the widest to the tightest, each by its path."""
    path: tuple[str, ...] = ()
    for level, label in (
        (Level.ZONE, node.zone),
        (Level.BLOCK, node.block),
        (Level.RACK, node.rack),
        (Level.NVLINK_DOMAIN, node.nvlink_domain),
    ):
        path = (*path, label)
        if label:
            yield level, path


def size_step(size: int) -> int:
    """Sizes in quarters of a power of two, in ascending order; 7 bits.

    A domain that grows node by node changes its step, and with it the order of its nodes, so
    seldom that all of it is O(1) for each node.
    """
    bits = size.bit_length()
    return bits << 2 | (size << 3 >> bits) & 3


def levels_to_try(required: Level | None) -> tuple[Level, ...]:
    """Spans to try, the smallest first, up to the widest allowed."""
    return LEVELS if required is None else LEVELS[: LEVELS.index(required) + 1]


def chain(state: NodeState) -> Iterator[Domain]:
    """The domains that hold `state`, the tightest first."""
    domain = state.domain
    while domain is not None:
        yield domain
        domain = domain.parent


def span_of(states: Iterable[NodeState]) -> Level | None:
    """The tightest level at which all `states` are together; None if at none."""
    first, *others = dict.fromkeys(states)
    if not others:
        return Level.NODE
    for domain in chain(first):
        if all(domain in chain(other) for other in others):
            return domain.level
    return None
