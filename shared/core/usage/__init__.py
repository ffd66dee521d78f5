"""Where GPU-hours go: what is held of GPUs is used, unused or unmeasured, and nothing else.

Amounts are integers, milli-GPU times milliseconds. `settle` says what the newest reading of a node
makes of a span of time for each holder; `UseAmounts.within` holds the sums to what the cost ledger
charges, so that used + unused + unmeasured = allocated, exactly. `energy` says what boards drew.
"""

from shared.core.usage.amounts import UseAmounts, parts_of_days
from shared.core.usage.energy import energy
from shared.core.usage.settling import (
    READING_MS_MAX,
    UNREAD,
    WHOLE_MASK,
    HeldShare,
    Reading,
    Settled,
    settle,
)

__all__ = [
    "READING_MS_MAX",
    "UNREAD",
    "WHOLE_MASK",
    "HeldShare",
    "Reading",
    "Settled",
    "UseAmounts",
    "energy",
    "parts_of_days",
    "settle",
]
