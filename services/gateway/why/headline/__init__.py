"""Which one cause `why` puts first, where the numbers of now say more than what was recorded."""

from services.gateway.why.headline.choice import PROMISED, better
from services.gateway.why.headline.closed_nodes import with_closed
from services.gateway.why.headline.past import (
    EVICTED,
    detail_of,
    evictions,
    last_eviction,
    preemptor,
)
from services.gateway.why.headline.reclaim import Reclaiming, ReclaimNeed, Vacated, reclaiming

__all__ = [
    "EVICTED",
    "PROMISED",
    "ReclaimNeed",
    "Reclaiming",
    "Vacated",
    "better",
    "detail_of",
    "evictions",
    "last_eviction",
    "preemptor",
    "reclaiming",
    "with_closed",
]
