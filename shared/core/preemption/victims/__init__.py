"""What to evict so that a workload that waits can start whole: the cheapest set.

`choose_victims` is the first to read; `search.py` goes through its steps in one flavor,
`counts.py` finds parts of the fabric by counting, `choice.py` the cheapest set there by simulated
removal (`simulated_removal.py`), `telling.py` says the answer in words.
"""

from shared.core.preemption.victims.choose import choose_victims
from shared.core.preemption.victims.simulated_removal import Scope, SimulatedRemoval
from shared.core.preemption.victims.telling import NEXT_STEP, victim_of

__all__ = ["NEXT_STEP", "Scope", "SimulatedRemoval", "choose_victims", "victim_of"]
