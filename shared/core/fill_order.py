"""Which of equally good nodes a single pod takes: the one that gangs miss least.

Broken nodes go before whole ones. Of the broken, those of one block after the other, small blocks
first; in a block, as of the whole ones everywhere: those of the NVLink domain, then of the rack,
with the fewest wholly free nodes. Last decides the seeded rank. So whole nodes, leaves and blocks
survive for gangs (placement.md 3.3; measured on Lingjun's fabric, tests/benchmarks/topology.py).
Nodes outside the fabric come first, in order of rank alone.

What the order is made of changes when a node breaks or heals; then only the nodes of its rack
move.
"""

from __future__ import annotations

from typing import Final

from shared.core.node_state import NodeState
from shared.core.topology import WHOLE_MAX, Domain

COUNT_BITS: Final = WHOLE_MAX.bit_length()
BLOCK_RANK_BITS: Final = 11
"""For the rank of a block, which tells blocks of about one size apart ..."""
BLOCK_BITS: Final = 5 + BLOCK_RANK_BITS
"""... and for the power of two of its size before it."""
RANK_BITS: Final = 63


def order_of_block(block: Domain) -> int:
    """The order of a block among blocks: the power of two of its size, then its rank."""
    rank = block.rank >> (RANK_BITS - BLOCK_RANK_BITS)
    return block.size.bit_length() << BLOCK_RANK_BITS | rank


def fill_order(node: NodeState) -> int:
    """63 bits; smaller goes first. O(levels)."""
    return with_rank(prefix_of(node.domain, whole=node.whole), node)


def prefix_of(domain: Domain | None, *, whole: bool) -> int:
    """What goes before the rank, for all nodes right under `domain` that are `whole`, or not."""
    if domain is None:
        return 0
    block = counts = position = 0
    while domain is not None:
        if domain.fills:
            # The tightest comes first; a node without an NVLink domain has its rack there.
            counts = counts << COUNT_BITS | min(domain.whole, WHOLE_MAX)
            position += 1
        elif domain.is_block:
            block = order_of_block(domain)
        domain = domain.parent
    fewest = counts << COUNT_BITS if position == 1 else counts
    if whole:
        return (3 << 2 * COUNT_BITS | fewest) << BLOCK_BITS | block
    return (2 << BLOCK_BITS | block) << 2 * COUNT_BITS | fewest


def with_rank(prefix: int, node: NodeState) -> int:
    """The order of a node with that prefix."""
    if not prefix:
        return node.rank >> 1
    bits = RANK_BITS - prefix.bit_length()
    return prefix << bits | node.rank >> (RANK_BITS - bits)


def order_by(domain: Domain) -> int:
    """What this domain adds to the order of its nodes: while it stays, none of them moves."""
    return order_of_block(domain) if domain.is_block else min(domain.whole, WHOLE_MAX)
