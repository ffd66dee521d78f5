"""Of equally good nodes a single pod takes the one that gangs miss least.

1. Broken nodes go before whole ones: those of one block after the other, small blocks first; in a
   block the fullest node, then the NVLink domain and the rack with the fewest wholly free nodes.
2. Of the whole ones, remnants go first: nodes of an NVLink domain (or rack, where there is none)
   with at most `REMNANT_NODES` of them, the fewest first, wherever they are.
3. The others go block by block, in the order of 1, and in a block as the remnants do.
Last decides the seeded rank. 2 spares leaves, which keeps the span of gangs small; 3 gathers
single pods in few blocks, which keeps room for wide gangs in the others (ADR 39;
measured on Lingjun's fabric, tests/benchmarks/topology.py). Nodes outside the fabric come first,
in order of rank alone.

What the order is made of changes when a node breaks or heals; then only the nodes of its rack
move, and the node itself with each GPU.
"""

from __future__ import annotations

from typing import Final

from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.topology import WHOLE_MAX, size_step

REMNANT_NODES: Final = 6
"""Wholly free nodes of a rack that is a remnant, at most. Less keeps more room for wide gangs in
one block, more lets gangs touch fewer racks (ADR 39)."""
COUNT_BITS: Final = WHOLE_MAX.bit_length()
FREE_BITS: Final = 4
FREE_MAX: Final = (1 << FREE_BITS) - 1
"""Free GPUs of a broken node are told apart up to this many."""
BLOCK_RANK_BITS: Final = 7
"""For the rank of a block, which tells blocks of about one size apart ..."""
BLOCK_BITS: Final = 7 + BLOCK_RANK_BITS
"""... and for the step of its size before it."""
RACKS_LAST: Final = 1 << (BLOCK_BITS + 2 * COUNT_BITS)
"""Part of the key of a whole node that is in no remnant."""
WHOLE_LAST: Final = 1 << (BLOCK_BITS + 2 * COUNT_BITS + FREE_BITS)
"""Part of the key of a whole node."""
IN_FABRIC: Final = WHOLE_LAST << 1
RANK_BITS: Final = 63


def order_of_block(block: Domain) -> int:
    """The order of a block among blocks: the step of its size, then its rank."""
    rank = block.rank >> (RANK_BITS - BLOCK_RANK_BITS)
    return size_step(block.size) << BLOCK_RANK_BITS | rank


def broken_key(block: int, tight: int, wide: int, free: int) -> int:
    """What goes before the rank of a broken node, in 31 bits; smaller goes first.

    `block` is the order of its block; `tight` and `wide` are the wholly free nodes of the tightest
    part that single pods fill and of the next; `free` are its own free GPUs.
    """
    return ((block << FREE_BITS | free) << COUNT_BITS | tight) << COUNT_BITS | wide


def whole_key(block: int, tight: int, wide: int) -> int:
    """The same of a wholly free one, in 31 bits with `broken_key`."""
    fewest = tight << COUNT_BITS | wide
    if tight <= REMNANT_NODES:
        return WHOLE_LAST | fewest << BLOCK_BITS | block
    return WHOLE_LAST | RACKS_LAST | block << 2 * COUNT_BITS | fewest


def fabric_order(node: NodeState) -> int:
    """63 bits; smaller goes first. O(levels)."""
    return with_rank(prefix_of(node.domain, free=node.free_count, whole=node.whole), node)


def prefix_of(domain: Domain | None, *, free: int, whole: bool) -> int:
    """What goes before the rank, for nodes right under `domain` with so many GPUs free."""
    if domain is None:
        return 0
    block, counts = 0, []
    while domain is not None:
        if domain.fills:
            # The tightest comes first; a node without an NVLink domain has its rack there.
            counts.append(min(domain.whole, WHOLE_MAX))
        elif domain.is_block:
            block = order_of_block(domain)
        domain = domain.parent
    tight, wide, *_ = *counts, 0, 0
    if whole:
        return IN_FABRIC | whole_key(block, tight, wide)
    return IN_FABRIC | broken_key(block, tight, wide, min(free, FREE_MAX))


def with_rank(prefix: int, node: NodeState) -> int:
    """The order of a node with that prefix."""
    if not prefix:
        return node.rank >> 1
    bits = RANK_BITS - prefix.bit_length()
    return prefix << bits | node.rank >> (RANK_BITS - bits)


def order_by(domain: Domain) -> int:
    """What this domain adds to the order of its nodes: while it stays, none of them moves."""
    return order_of_block(domain) if domain.is_block else min(domain.whole, WHOLE_MAX)
