"""One try: a whole gang in one flavor, within the quota that is left there."""

from __future__ import annotations

from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang
from shared.core.model.units import Resources
from shared.core.placement.feasibility import Tiers, cheapest, permitted
from shared.core.placement.gang.lay_out import lay_out
from shared.core.scoring import Cluster


def attempt(cluster: Cluster, gang: Gang, flavor: str, headroom: Resources) -> Statement | None:
    """The whole gang in one flavor, charged; or None, and nothing changed."""
    if not least_charge(gang).fits_in(headroom):
        return None
    tiers = tuple(permitted(cluster, gang, demand, flavor) for demand in gang.demands)
    if not all(tiers):
        return None
    statement = _try(cluster, gang, tiers, headroom, flavor)
    if statement is None and any(demand.profile for demand in gang.demands):
        frugal = _cheapest(gang, tiers)
        if frugal != tiers:
            statement = _try(cluster, gang, frugal, headroom, flavor)
    return statement


def least_charge(gang: Gang) -> Resources:
    """What the gang is charged at least: MIG counts by the board, so not before it is placed."""
    gpu_milli = cpu_milli = memory_mib = 0
    for demand in gang.demands:
        gpu_milli += demand.gpu_milli * demand.count
        cpu_milli += demand.cpu_milli * demand.count
        memory_mib += demand.memory_mib * demand.count
    return Resources(gpu_milli=gpu_milli, cpu_milli=cpu_milli, memory_mib=memory_mib)


def _try(
    cluster: Cluster, gang: Gang, tiers: tuple[Tiers, ...], headroom: Resources, flavor: str
) -> Statement | None:
    statement = Statement(cluster, gang.team)
    if lay_out(cluster, gang, tiers, statement, flavor) and statement.charge_sum().fits_in(
        headroom
    ):
        return statement
    statement.rollback()
    return None


def _cheapest(gang: Gang, tiers: tuple[Tiers, ...]) -> tuple[Tiers, ...]:
    return tuple(
        cheapest(each, demand.profile) if demand.profile else each
        for demand, each in zip(gang.demands, tiers, strict=True)
    )
