"""Quota is all that is missing: without its bound the workload would find room."""

from __future__ import annotations

from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang
from shared.core.model.request import PlacementRequest
from shared.core.model.units import NOTHING, UNBOUNDED, Resources
from shared.core.model.wording import amount, listing
from shared.core.placement.gang import attempt, least_charge
from shared.core.scoring import Cluster


def no_quota(cluster: Cluster, request: PlacementRequest, gang: Gang) -> Refusal | None:
    """A refusal if there is no flavor, or one with room for `gang` but without quota."""
    if not request.flavors:
        return Refusal(
            reason=Reason.WAITING_FOR_QUOTA,
            message="The queue's quota permits no flavor to this workload now.",
            next_step="Wait for quota, or ask for quota in a flavor that has free nodes.",
        )
    least, by_board = least_charge(gang), any(demand.profile for demand in gang.demands)
    for flavor in request.flavors:
        free = request.headroom.get(flavor, NOTHING)
        if least.fits_in(free) and not by_board:
            continue  # Tried in full by `place`: quota is not what hinders.
        statement = attempt(cluster, gang, flavor, UNBOUNDED)
        if statement is not None:
            charge = statement.charge_sum()
            statement.rollback()
            return _refusal(flavor, charge, free)
    return None


def _refusal(flavor: str, charge: Resources, free: Resources) -> Refusal:
    wanted = {
        "gpu_milli": (charge.gpu_milli, free.gpu_milli),
        "cpu_milli": (charge.cpu_milli, free.cpu_milli),
        "memory_mib": (charge.memory_mib, free.memory_mib),
    }
    short = {unit: pair for unit, pair in wanted.items() if pair[0] > pair[1]}
    parts = [
        f"needs {amount(unit, need)}, quota has {amount(unit, max(have, 0))} free"
        for unit, (need, have) in short.items()
    ]
    evidence = {}
    for unit, (need, have) in short.items():
        evidence[f"needed_{unit}"] = need
        evidence[f"quota_free_{unit}"] = have
    return Refusal(
        reason=Reason.WAITING_FOR_QUOTA,
        message=f"There is room in flavor {flavor}, but the workload {listing(parts)}.",
        next_step="It is tried again when quota comes free; or ask for more, or request less.",
        evidence=evidence,
    )
