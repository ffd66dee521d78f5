"""Tells destinations that teams and operators name of what happens to them (docs/adr/0093).

Begin with `handler.py`, then `notices.py` (which fact is which event), `courier.py` (order and
retries of one destination) and `rendering.py`.
"""
