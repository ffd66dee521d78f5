"""Slow changes of devices: readings become points, points are judged, what is found is told.

Begin with `finding`.
"""

from services.monitoring.trends.finding import Trends

__all__ = ["Trends"]
