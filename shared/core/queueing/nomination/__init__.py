"""Which workloads may be tried next, under quota: `Nominator` is the first to read.

Facts come in; `changed_queues.py` says which queues they may help, `pending_queue.py` holds a
queue's order, `permission.py` asks the quota, `turns.py` the order across queues, `window.py`
bounds what is open and `nomination_cycle.py` concludes. Out come decisions: nominate, expect,
refuse, withdraw.
"""

from shared.core.queueing.nomination.decision import Expect, Nominate, Refuse, Withdraw
from shared.core.queueing.nomination.flavor_choice import (
    FlavorChoice,
    FlavorKind,
    choice_of,
    in_order_of_use,
    permitted,
)
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.queueing.nomination.pending import Pending, Phase

__all__ = [
    "Expect",
    "FlavorChoice",
    "FlavorKind",
    "Nominate",
    "Nominator",
    "Pending",
    "Phase",
    "Refuse",
    "Withdraw",
    "choice_of",
    "in_order_of_use",
    "permitted",
]
