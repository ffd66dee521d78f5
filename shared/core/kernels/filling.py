"""In which order single pods take equally good nodes: core/fill_order.py in arrays.

The order is a key and then the number of the node. A key holds all that goes before the rank, so
it changes when a node of the rack or NVLink domain breaks or heals. Such domains are queued; their
nodes move in the cells before the next single pod is placed, for gangs do not look at cells.
"""

from __future__ import annotations

from shared.core.fill_order import FREE_MAX, broken_key, whole_key
from shared.core.kernels.arrays import (
    BLOCK_ORDER,
    FILLED,
    FREE,
    NODES_FROM,
    NODES_TO,
    NONE,
    PATH,
    WHOLE,
    State,
)
from shared.core.kernels.bits import bits
from shared.core.kernels.cells import reorder
from shared.core.kernels.indexes import QUEUE, QUEUE_LENGTH, QUEUED, WHOLE_NODES, Index
from shared.core.kernels.jit import compiled
from shared.core.kernels.tree import KEY
from shared.core.topology import WHOLE_MAX

_broken_key, _whole_key = compiled(broken_key), compiled(whole_key)


@compiled
def is_whole(state: State, node: int) -> bool:
    """Whether a node counts as wholly free."""
    return bool(state.nodes[node, FREE] == state.nodes[node, WHOLE])


@compiled
def fill_key(state: State, index: Index, node: int) -> int:
    """31 bits, smaller goes first; `NONE` for nodes outside the fabric, before all others."""
    block: int = state.nodes[node, BLOCK_ORDER]
    if block == NONE:
        return NONE
    tight, wide = state.nodes[node, PATH], state.nodes[node, PATH + 1]
    if tight == NONE:
        tight, wide = wide, NONE
    fewest, next_fewest = _count_of(index, tight), _count_of(index, wide)
    if is_whole(state, node):
        return _whole_key(block, fewest, next_fewest)
    free = min(bits(state.nodes[node, FREE]), FREE_MAX)
    return _broken_key(block, fewest, next_fewest, free)


@compiled
def _count_of(index: Index, domain: int) -> int:
    return 0 if domain == NONE else min(int(index.whole[domain, WHOLE_NODES]), WHOLE_MAX)


@compiled
def count_whole(state: State, index: Index, node: int, was_whole: bool) -> None:
    """`node` changed: count it as wholly free, or no longer, and queue its domains if need be."""
    whole = is_whole(state, node)
    if whole == was_whole:
        return
    for level in range(FILLED):
        domain = state.nodes[node, PATH + level]
        if domain != NONE:
            index.whole[domain, WHOLE_NODES] += 1 if whole else -1
            if index.whole[domain, WHOLE_NODES] <= WHOLE_MAX and not index.whole[domain, QUEUED]:
                index.whole[domain, QUEUED] = 1
                index.whole[index.sizes[QUEUE_LENGTH], QUEUE] = domain
                index.sizes[QUEUE_LENGTH] += 1


@compiled
def keep_order(state: State, index: Index) -> None:
    """Put the nodes of the queued domains, and what is shared of their GPUs, in order."""
    for at in range(index.sizes[QUEUE_LENGTH]):
        domain = index.whole[at, QUEUE]
        index.whole[domain, QUEUED] = 0
        for each in range(state.domains[domain, NODES_FROM], state.domains[domain, NODES_TO]):
            _reorder(state, index, state.order[each])
    index.sizes[QUEUE_LENGTH] = 0


@compiled
def _reorder(state: State, index: Index, node: int) -> None:
    key, gpus = fill_key(state, index, node), state.gpus.shape[1]
    if index.tree[node, KEY] != key:
        reorder(index, node, key)
        first = 2 * len(state.nodes) + node * gpus
        for item in range(first, first + gpus):
            reorder(index, item, key)
