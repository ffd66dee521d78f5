"""How many pods each part of the fabric has room for, counted anew by the reference each time."""

from __future__ import annotations

import numpy as np

from shared.core.kernels.arrays import (
    BLOCK,
    CHILDREN,
    CPU,
    FREE,
    GPUS,
    KIND,
    MEMORY,
    NODE_POSITION,
    NODES_FROM,
    NODES_TO,
    POD_CPU,
    POD_MEMORY,
    POSITION,
    WORKS,
    ZONE,
    Ints,
    State,
)
from shared.core.kernels.reference_single import bits_of

Part = tuple[int, int, int]
"""(room, place among all in order of rank, domain or -1 - node)."""


def rooms_of(state: State, shape: int, *, exactly: bool) -> Ints:
    """(n,) pods that each node has room for: by its free GPUs, or by everything."""
    nodes, pod = state.nodes, state.shapes[shape]
    rooms = bits_of(nodes[:, FREE]) // pod[GPUS]
    for asked, free in ((pod[POD_CPU], nodes[:, CPU]), (pod[POD_MEMORY], nodes[:, MEMORY])):
        if exactly and asked:
            rooms = np.minimum(rooms, free // asked)
    may_run = (nodes[:, WORKS] > 0) & state.allowed[shape, nodes[:, KIND]]
    return np.where(may_run, np.maximum(rooms, 0), 0)


def rooms_of_domains(state: State, rooms: Ints) -> Ints:
    """(D,) the same for domains."""
    table, order = state.domains[:-1], state.order
    so_far = np.concatenate(([0], np.cumsum(rooms[order])))
    return so_far[table[:, NODES_TO]] - so_far[table[:, NODES_FROM]]


def parts_for(state: State, place: int, pods: int, rooms: Ints, in_domains: Ints) -> int:
    """How many parts of a domain it takes to hold `pods`, the largest first."""
    largest_first = [room for room, _, _ in children(state, place, rooms, in_domains)[::-1]]
    return int((np.cumsum(largest_first) < pods).sum()) + 1


def parts_of(state: State, place: int, pods: int, rooms: Ints, in_domains: Ints) -> list[Part]:
    """Where to fill a domain; of a zone the racks of the fewest blocks that hold `pods`."""
    levels = state.levels
    parts = children(state, place, rooms, in_domains)
    if place < levels[ZONE]:
        return parts
    across: list[Part] = []
    while pods > 0 and parts:
        part = next_part(parts, pods)
        pods -= part[0]
        is_block = levels[BLOCK] <= part[2] < levels[ZONE]
        across += children(state, part[2], rooms, in_domains) if is_block else [part]
    return sorted(across)


def children(state: State, place: int, rooms: Ints, in_domains: Ints) -> list[Part]:
    """Parts of a domain with any room, in order of room and rank."""
    begin, end = state.domains[place : place + 2, CHILDREN]
    parts = [
        (int(in_domains[part]), int(state.domains[part, POSITION]), part)
        if part >= 0
        else (int(rooms[-1 - part]), int(state.nodes[-1 - part, NODE_POSITION]), part)
        for part in state.children[begin:end].tolist()
    ]
    return sorted(part for part in parts if part[0])


def next_part(parts: list[Part], pods: int) -> Part:
    """Take out the tightest part that holds all `pods`, else the largest."""
    enough = (at for at, part in enumerate(parts) if part[0] >= pods)
    return parts.pop(next(enough, len(parts) - 1))
