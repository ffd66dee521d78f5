"""How many more nodes of a flavor waiting work needs, and a buffer of empty ones.

`gang.py`: what a gang asks of nodes; `permitted.py`: which gangs count, each in one flavor, as far
as quota lets it; `rooms.py`: what is free on nodes; `packing.py`: how many nodes are lacking
(docs/adr/0108).
"""

from shared.core.needed_nodes.gang import GangNeed, gang_need
from shared.core.needed_nodes.packing import LOOKS_MAX, NodeLack, lack_of
from shared.core.needed_nodes.permitted import WaitingGang, within_quota
from shared.core.needed_nodes.rooms import OpenNode

__all__ = [
    "LOOKS_MAX",
    "GangNeed",
    "NodeLack",
    "OpenNode",
    "WaitingGang",
    "gang_need",
    "lack_of",
    "within_quota",
]
