"""The preferences among places that fit, each a module, the most important first.

`POLICIES` score conditions of nodes and shared GPUs; an earlier one outweighs all later ones
together (`core/scoring/scores.py`). Among places of the same score decide, in this order:
- artifact locality: a node that has weights and image already (`core/cluster/images.py`);
- the order of the fabric (`fabric_order.py`): the node that gangs miss least;
- the node's seeded rank, which spreads what is equal in all else.

To add a preference: write a module with a class as in `core/scoring/policy.py`, its test, and a
line in `POLICIES`. Policies do not import each other.
"""

from typing import Final

from shared.core.scoring.policies.cpu_balance import CpuBalance
from shared.core.scoring.policies.fabric_order import (
    fabric_order,
    order_by,
    prefix_of,
    with_rank,
)
from shared.core.scoring.policies.fragmentation import Fragmentation
from shared.core.scoring.policies.gpu_free_nodes import GpuFreeNodes
from shared.core.scoring.policies.open_rest import OpenRest
from shared.core.scoring.policies.shared_gpu_value import SharedGpuValue
from shared.core.scoring.policy import ScoringPolicy

POLICIES: Final[tuple[type[ScoringPolicy], ...]] = (
    Fragmentation,
    GpuFreeNodes,
    SharedGpuValue,
    CpuBalance,
    OpenRest,
)

__all__ = ["POLICIES", "fabric_order", "order_by", "prefix_of", "with_rank"]
