"""The fewest moves that let one blocked gang start: `defragment` is the first to read.

`evacuation.py` counts what would have to leave a part of the fabric, `rehearsal.py` tries it on
the cluster and takes it back, `search.py` goes through the parts.
"""

from shared.core.preemption.defragmentation.defragment import (
    DefragmentationObstacle,
    NoPlan,
    Running,
    defragment,
)
from shared.core.preemption.defragmentation.evacuation import parts_of
from shared.core.preemption.defragmentation.plan import DefragmentationLimits, Plan
from shared.core.preemption.defragmentation.rehearsal import Move, take

__all__ = [
    "DefragmentationLimits",
    "DefragmentationObstacle",
    "Move",
    "NoPlan",
    "Plan",
    "Running",
    "defragment",
    "parts_of",
    "take",
]
