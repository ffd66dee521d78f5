"""Where a gang goes: whole, in one flavor, or not at all, and why not.

Begin with `place.py`: its docstring has the steps. `feasibility.py` are the static filters, asked
once for each class of nodes; `search.py` finds the tightest place for a pod, `room.py` counts how
many pods a part of the fabric holds, `gang` lays a gang out, `explain` says why there is no place.
A preference among places that fit is a matter of `core/scoring`. `resize.py`: sizes of elastic
gangs.
"""
