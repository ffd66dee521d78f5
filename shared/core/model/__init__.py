"""The nouns of Muster, their units, and the tables that everything else refers to.

`nouns.py` has workloads, pod sets, nodes, GPUs and placements; `units.py` the integer amounts;
`lifecycle.py` the states and their transitions; `reason.py` and `decision.py` refusals with their
numbers; `demand.py` what placement reads of a request; `mig` the geometry of MIG boards. Imports
nothing else of core.
"""
