"""Where GPU-hours go: what is held of GPUs is used, unused or unmeasured, and nothing else.

Amounts are integers, milli-GPU times milliseconds. `settle` says what the newest reading of a node
makes of a span of time for each holder; `UseAmounts.within` holds the sums to what the cost ledger
charges, so that used + unused + unmeasured = allocated, exactly.
"""

from shared.core.usage.amounts import UseAmounts, parts_of_days
from shared.core.usage.settling import (
    READING_MS_MAX,
    UNREAD,
    WHOLE_MASK,
    Reading,
    Settled,
    settle,
)

__all__ = [
    "READING_MS_MAX",
    "UNREAD",
    "WHOLE_MASK",
    "Reading",
    "Settled",
    "UseAmounts",
    "parts_of_days",
    "settle",
]
