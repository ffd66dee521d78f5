"""Which one cause `why` puts first, where the numbers of now say more than what was recorded."""

from services.gateway.headline.choice import PROMISED, better
from services.gateway.headline.reclaim import Need, Reclaiming, Vacated, reclaiming

__all__ = ["PROMISED", "Need", "Reclaiming", "Vacated", "better", "reclaiming"]
