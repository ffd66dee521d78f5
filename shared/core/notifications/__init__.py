"""Which events are told to which destination, and to which addresses (docs/adr/0093).

Begin with `events.py`, then `addresses.py`.
"""
