"""Work goes on elsewhere so that a gang finds room: beside evictions, or in place of them.

`choose_moves` is the first to read; `place_without` finds where a gang would go if others were
gone, and `take` that very place later.
"""

from shared.core.preemption.defragmentation import take
from shared.core.preemption.moves.moving import MovingState, choose_moves, limits_for, may_ask
from shared.core.preemption.moves.vacating import Holder, Mover, place_without

__all__ = [
    "Holder",
    "Mover",
    "MovingState",
    "choose_moves",
    "limits_for",
    "may_ask",
    "place_without",
    "take",
]
