"""Sums that memory keeps: `totals.py` of what is held, `gangs.py` of what waits for nodes."""
