"""The fleet of one flavor as arrays: what the back-ends read and change.

Few arrays with many columns, because each array that a call takes costs time. Nodes are numbered
in the order of their seeded rank, so "the least rank" is "the least number"; GPUs of a node by
their index. Amounts are in the units of core/units.py. `n` nodes, `G` GPUs of the largest node,
`K` kinds, `S` shapes of pods, `D` domains of the fabric.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

NONE: Final = -1
"""No node, no team, no domain."""
LEVELS: Final = 4
"""Levels of domains: NVLink domain, rack, block, zone (core/topology.py)."""
FILLED: Final = 2
"""The first levels, whose domains single pods fill one after the other (core/fill_order.py)."""
BLOCK: Final = 2
ZONE: Final = 3

# Columns of `nodes`
KIND: Final = 0
WORKS: Final = 1
"""1 where new work is taken: ready, not cordoned, healthy."""
CPU: Final = 2
"""Free milli-cores; below 0 where a report took away what is held."""
MEMORY: Final = 3
"""Free MiB, likewise."""
USABLE: Final = 4
"""Bit g: GPU g is healthy and not in MIG mode."""
FREE: Final = 5
"""Bit g: GPU g is usable and nothing is held on it."""
BOARD: Final = 6
"""Row of `picks`."""
WHOLE: Final = 7
"""What `FREE` is while the node counts as wholly free (core/topology.py); `NONE` if never."""
BLOCK_ORDER: Final = 8
"""Order of its block (core/fill_order.py), 0 without one; `NONE` outside the fabric."""
NODE_POSITION: Final = 9
"""Where it is in `places`."""
PATH: Final = 10
"""First of `LEVELS` columns: the domain at each level, the tightest first; or `NONE`."""
NODE_COLUMNS: Final = PATH + LEVELS

# Columns of `gpus`
MILLI: Final = 0
"""Held."""
GPU_MEMORY: Final = 1
"""MiB that shares may still take."""
OWNER: Final = 2
"""Team whose shares are on it, or `NONE`."""
GPU_COLUMNS: Final = 3

# Columns of `kinds`
CPU_PER_GPU: Final = 0
"""Milli-cores that should stay beside each free GPU."""
CPU_IN_ALL: Final = 1
"""Milli-cores of an empty node."""

# Columns of `shapes`
GPUS: Final = 0
SHARE: Final = 1
"""Milli of one GPU, or 0."""
SHARE_MEMORY: Final = 2
POD_CPU: Final = 3
POD_MEMORY: Final = 4
POOL: Final = 5
"""Which count of rooms serves gangs of this shape; `NONE` before the first."""
SCORED_AS: Final = 6
"""The first shape of equal scores: they do not depend on memory."""
SHAPE_COLUMNS: Final = 7

# Columns of `domains`
CHILDREN: Final = 0
"""Where its parts begin in `children`; they end where those of the next domain begin."""
NODES_FROM: Final = 1
NODES_TO: Final = 2
"""Its nodes in `order`."""
POSITION: Final = 3
"""Where it is in `places`."""
OTHERS_WHOLE: Final = 4
"""Wholly free nodes of other flavors in it."""
DOMAIN_COLUMNS: Final = 5

# Columns of `held`
HELD_NODE: Final = 0
HELD_GPUS: Final = 1
"""Mask; a share is on the one GPU in it."""
HELD_SHAPE: Final = 2
HELD_TEAM: Final = 3
HELD_COLUMNS: Final = 4

# Columns of requests
WHAT: Final = 0
SLOT: Final = 1
"""The caller numbers the pods that it places; a gang takes `PODS` slots in a row."""
SHAPE: Final = 2
TEAM: Final = 3
PODS: Final = 4
WIDEST: Final = 5
"""Widest span of a gang: 0 one node, 1 to `LEVELS` a level; `NONE` if the fabric is no matter."""
ANYWHERE: Final = 6
"""1 if a wider span is better than none."""
REQUEST_COLUMNS: Final = 7

PLACE: Final = 0
GANG: Final = 1
RELEASE: Final = 2


class State(NamedTuple):
    """All that a decision depends on, but for the tables of the mix."""

    nodes: Ints
    """(n, NODE_COLUMNS)"""
    gpus: Ints
    """(n, G, GPU_COLUMNS)"""
    picks: Ints
    """(boards, 2**G, G + 1) mask of the GPUs to take, by free mask and count (core/scoring.py)."""
    kinds: Ints
    """(K, 2)"""
    shapes: Ints
    """(S, SHAPE_COLUMNS)"""
    allowed: Bools
    """(S, K) where pods of a shape may run."""
    domains: Ints
    """(D + 1, DOMAIN_COLUMNS), by level and by rank within a level."""
    levels: Ints
    """(LEVELS + 1,) the first domain of each level."""
    children: Ints
    """Parts of domains by rank: a domain, or a node as -1 - its number."""
    order: Ints
    """(n,) nodes, those of one domain side by side."""
    places: Ints
    """(n + D,) all nodes and domains by rank, written as in `children`."""
    held: Ints
    """(slots, HELD_COLUMNS)"""


class Tables(NamedTuple):
    """`core.waste.Waste` by kind instead of by product."""

    nodes: Floats
    gpu: Floats
    scarce: Floats
    """(K, free GPUs, cores)"""
    rests: Floats
    """(free milli / 10,)"""
    of_kind: Floats
    """(K, 2): price of one GPU; 1 where there is none."""
    cpu_per_gpu_milli: Floats
    """(1,)"""
