"""What a scrape shows of the memory, worked out when it is asked for: begin with `collector`."""

from services.monitoring.gauges.collector import Gauges

__all__ = ["Gauges"]
