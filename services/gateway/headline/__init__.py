"""Which one cause `why` puts first, where the numbers of now say more than what was recorded."""

from services.gateway.headline.choice import PROMISED, UNTOLD, better
from services.gateway.headline.reclaim import Need, Reclaiming, Vacated, reclaiming

__all__ = ["PROMISED", "UNTOLD", "Need", "Reclaiming", "Vacated", "better", "reclaiming"]
