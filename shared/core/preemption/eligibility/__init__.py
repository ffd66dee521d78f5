"""Which workloads may be evicted for another, and at what price.

`rules.py` has the rules, one victim at a time; `standing.py` where the preemptor stands in the
quota tree meanwhile; `screen.py` and `sparing.py` ask them for all occupants of a flavor at once.
`occupant.py` is what a workload holds and would lose; `plan.py` the words of an eviction plan.
"""
