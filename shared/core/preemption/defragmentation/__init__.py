"""The fewest moves that let one blocked gang start: `defragment` is the first to read.

`evacuation.py` counts who would have to leave a part of the fabric, `rehearsal.py` tries it on the
cluster and takes it back, `search.py` goes through the parts.
"""

from shared.core.preemption.defragmentation.defragment import NoPlan, Obstacle, Running, defragment
from shared.core.preemption.defragmentation.evacuation import parts_of
from shared.core.preemption.defragmentation.plan import Limits, Plan
from shared.core.preemption.defragmentation.rehearsal import Move, takes

__all__ = [
    "Limits",
    "Move",
    "NoPlan",
    "Obstacle",
    "Plan",
    "Running",
    "defragment",
    "parts_of",
    "takes",
]
