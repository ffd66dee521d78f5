"""How the pods of a gang are laid out in one flavor, the whole gang or nothing.

`attempt` tries; `lay_out.py` tells the ways: within one domain of the fabric (`span.py`,
`places.py`), anywhere (`anywhere.py`), in slices (`apart.py`), by a bounded search where shapes
get in each other's way (`exact.py`, `orders.py`). `attempt_most` finds the most pods of an elastic
gang that fit, `grow` adds to one that runs, `ranked` numbers the pods by the fabric.
"""

from shared.core.placement.gang.attempt import attempt, least_charge
from shared.core.placement.gang.elastic import attempt_most, smallest, spare_units
from shared.core.placement.gang.exact import unlike
from shared.core.placement.gang.fill import is_in
from shared.core.placement.gang.grow import grow
from shared.core.placement.gang.ranks import ranked

__all__ = [
    "attempt",
    "attempt_most",
    "grow",
    "is_in",
    "least_charge",
    "ranked",
    "smallest",
    "spare_units",
    "unlike",
]
