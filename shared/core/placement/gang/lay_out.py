"""How the pods of a gang are laid out: in the smallest span of the fabric, or anywhere.

Where the fabric matters, spans are tried from one node upwards (span.py) in the places of each
level that come in question (places.py), and filled part by part (fill.py). Where it does not, or
is only preferred, each pod goes to its best place (anywhere.py). Pods that would rather be apart
lie on as many nodes as can be (apart.py). Pods of different shapes, which may get in each other's
way, are tried in other orders in the end: whole sets where there are slices or a leader
(orders.py), then pod by pod (exact.py).
"""

from __future__ import annotations

from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang
from shared.core.placement.feasibility import Tiers
from shared.core.placement.gang.anywhere import anywhere
from shared.core.placement.gang.fill import Layout
from shared.core.placement.gang.span import in_fleet, in_smallest_span
from shared.core.scoring import Cluster


def lay_out(
    cluster: Cluster, gang: Gang, tiers: tuple[Tiers, ...], statement: Statement, flavor: str
) -> bool:
    """Charge the whole gang through `statement`; or nothing, and False."""
    layout = Layout.of(cluster, gang, tiers, statement, flavor)
    if not gang.constrained:
        return anywhere(layout)
    if in_smallest_span(layout):
        return True
    if gang.topology.required is not None:
        return False
    return in_fleet(layout) if gang.shaped else anywhere(layout)
