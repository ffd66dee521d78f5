"""Who may be evicted for whom, and at what price.

`rules.py` has the rules, one victim at a time; `standing.py` where the preemptor stands in the
quota tree meanwhile; `screen.py` and `sparing.py` ask them for all occupants of a flavor at once.
`occupant.py` is who holds what and would lose what; `plan.py` the words of an eviction plan.
"""
