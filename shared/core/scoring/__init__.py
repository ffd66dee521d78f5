"""Of places that fit, which is best: by what the learned mix of demand leaves useful.

The preferences are a list in `policies/__init__.py`: begin there, and add a preference there. A
flavor's pods are counted as they are asked for (`mix.py`, `learned_counts.py`). Nodes and shared
GPUs in the same condition are one equivalence class (`cells.py`, `equivalence_classes.py`); a
class gets one score by the policies, not each node (`scores.py`, `learned_scores.py`).
`packing_index.py` finds the best member of the best class. Until enough was asked,
`placement/search.py` goes by tightest fit. MIG instances have prices of their own (`mig_pool.py`).
`devices.py` picks GPUs inside a node. `Cluster` is the state of `core/cluster` with all of that.
"""

from shared.core.scoring.cells import Ints
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.devices import (
    instance_share,
    instance_shares,
    mig_room,
    node_room,
    share_of,
    shares_on,
    takes_share,
    whole_shares,
)
from shared.core.scoring.packing_index import PackingIndex
from shared.core.scoring.spare_cpu import cpu_to_leave_milli, pick_gpus

__all__ = [
    "Cluster",
    "Ints",
    "PackingIndex",
    "cpu_to_leave_milli",
    "instance_share",
    "instance_shares",
    "mig_room",
    "node_room",
    "pick_gpus",
    "share_of",
    "shares_on",
    "takes_share",
    "whole_shares",
]
