"""What the back-ends decide as the core does; the caller hands everything else to the core."""

from __future__ import annotations

from shared.core.demand import Gang, PodDemand
from shared.core.feasibility import Tiers
from shared.core.model import Spread


def decides(gang: Gang, tiers: Tiers) -> bool:
    """Whether a back-end gives `gang`, on kinds of these `tiers`, the places that the core gives.

    One pod of any form without MIG, or several equal pods with whole GPUs and any topology; of
    one tier of kinds (`core.feasibility.permitted`), and without spread, slices, leader, least
    size or alignment to a NUMA domain, and of an image and weights that no node has. The mix must
    be known (`Fleet.learn`).
    """
    if len(gang.demands) != 1 or len(tiers) != 1 or gang.spread is not Spread.NONE:
        return False
    (demand,) = gang.demands
    if any(kind.images.has_any(demand.artifacts) for kind in tiers[0]):
        return False
    return is_plain(demand) and (gang.pods == 1 or bool(demand.gpus))


def is_plain(demand: PodDemand) -> bool:
    """Whether the pods ask for nothing but amounts."""
    return not (
        demand.profile
        or demand.slices
        or demand.leader
        or demand.aligned
        or demand.min_count < demand.count
    )
