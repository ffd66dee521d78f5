"""Why a workload was not placed: the first of these that is true, with counts and a way out.

1. quota is all that is missing                         WaitingForQuota
2. no node passes the filters (counts for each filter)  NoMatchingFlavor
3. all that pass are cordoned, not ready or unhealthy   NodesUnhealthy
4. not even one pod finds room (nearest miss)           InsufficientCapacity, NoLegalMigPosition
5. some pods find room, not all of them                 GangIncomplete
6. all find room, but not close enough together, or not TopologyPlacementFailed
   in whole slices
7. each pod set finds room, but not beside the others   GangIncomplete

Called when `place` found nothing, on the same state; changes nothing.
"""

from __future__ import annotations

from shared.core.attempt import attempt, least_charge
from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import Gang, PodDemand, gang_of
from shared.core.elastic import smallest
from shared.core.feasibility import Filter
from shared.core.gang import constrained
from shared.core.kind import Kind
from shared.core.model import Spread
from shared.core.nearest import nearest_domain, nearest_slices
from shared.core.request import PlacementRequest
from shared.core.survey import (
    Survey,
    free_by_numa,
    free_gpus,
    free_shares,
    free_slices,
    room_for,
    survey,
)
from shared.core.units import NOTHING, UNBOUNDED, Resources
from shared.core.wording import amount, count, listing, pod_needs

Rooms = list[tuple[PodDemand, int, str]]
"""(demand, pods of it that find room, in which flavor)"""


def explain(cluster: Cluster, request: PlacementRequest) -> Refusal:
    """The dominant reason why `request` cannot be placed now. About 0.1 ms, any fleet.

    An elastic gang is refused because of the least of it, and that is what is explained.
    """
    gang = smallest(gang_of(request.workload, request.pins))
    refusal = _quota(cluster, request, gang)
    if refusal is not None:
        return refusal
    for demand in gang.demands:
        found = survey(cluster, gang, demand, request.flavors)
        refusal = _no_node(found, gang, demand) or _no_room(cluster, found, gang, demand)
        if refusal is not None:
            return refusal
    return _gang(cluster, request, gang)


# ── 1. quota ─────────────────────────────────────────────────────────────────


def _quota(cluster: Cluster, request: PlacementRequest, gang: Gang) -> Refusal | None:
    if not request.flavors:
        return Refusal(
            reason=Reason.WAITING_FOR_QUOTA,
            message="The queue's quota permits no flavor to this workload now.",
            next_step="Wait for quota, or ask for quota in a flavor that has free nodes.",
        )
    least, by_board = least_charge(gang), any(demand.profile for demand in gang.demands)
    for flavor in request.flavors:
        if least.fits_in(request.headroom.get(flavor, NOTHING)) and not by_board:
            continue  # Tried in full by `place`: quota is not what hinders.
        statement = attempt(cluster, gang, flavor, UNBOUNDED)
        if statement is not None:
            charge = statement.charge_sum()
            statement.rollback()
            return _quota_refusal(flavor, charge, request.headroom.get(flavor, NOTHING))
    return None


def _quota_refusal(flavor: str, charge: Resources, free: Resources) -> Refusal:
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


# ── 2 and 3. filters and health ──────────────────────────────────────────────

_FILTER_WORDS = {
    Filter.FLAVOR: "of another flavor",
    Filter.POOL: "in another pool",
    Filter.TAINT: "tainted",
    Filter.NO_GPU: "without a GPU",
    Filter.PRODUCT: "of another product",
    Filter.GPU_MEMORY: "with too little GPU memory",
    Filter.DRIVER: "with too old a driver",
    Filter.CUDA: "with a driver too old for the CUDA version",
    Filter.MIG_PROFILE: "without the MIG profile",
    Filter.PINNED: "kept for gangs that begin before it would end, or for shorter work",
}
_FILTER_HELP = {
    Filter.FLAVOR: "Wait for quota in another flavor, or for nodes of this one",
    Filter.POOL: "Name another node pool, or none",
    Filter.TAINT: "Name the pool whose nodes are tainted for it, or ask an operator",
    Filter.NO_GPU: "Wait for nodes with GPUs",
    Filter.PRODUCT: "Allow more products",
    Filter.GPU_MEMORY: "Ask for less GPU memory",
    Filter.DRIVER: "Accept an older driver, or ask an operator to upgrade",
    Filter.CUDA: "Use an image with an older CUDA, or ask an operator to upgrade",
    Filter.MIG_PROFILE: "Choose a profile that these GPUs have",
    Filter.PINNED: "Wait for these gangs to begin, or for other nodes, or say that it is shorter",
}


def _no_node(found: Survey, gang: Gang, demand: PodDemand) -> Refusal | None:
    evidence = _filter_evidence(found)
    if not found.matching:
        parts = [f"{many} {_FILTER_WORDS[each]}" for each, many in found.excluded.items()]
        why = f": {listing(parts)}" if parts else ""
        last = max(found.excluded, key=list(Filter).index, default=None)
        kept = Filter.PINNED in found.excluded
        return Refusal(
            reason=Reason.NO_CAPACITY if kept else Reason.NO_MATCHING_NODE,
            message=f"None of {count(found.nodes, 'node')} matches "
            f"{pod_needs(demand, gang)}{why}.",
            next_step=f"{_FILTER_HELP[last]}." if last else "Wait for nodes to register.",
            evidence=evidence,
        )
    if not found.open or (demand.wants_gpu and found.unhealthy_gpus == found.gpus):
        return Refusal(
            reason=Reason.NODES_UNHEALTHY,
            message=f"All {count(found.matching, 'matching node')} are out: "
            f"{found.matching - found.open} cordoned, not ready or unhealthy, "
            f"{count(found.unhealthy_gpus, 'GPU')} unhealthy on the others.",
            next_step="It is tried again when a node returns; `muster nodes` shows their state.",
            evidence=evidence,
        )
    return None


def _filter_evidence(found: Survey) -> dict[str, int]:
    evidence = {"nodes": found.nodes}
    for each, many in found.excluded.items():
        evidence[f"nodes_excluded_{each.value}"] = many
    evidence["nodes_matching"] = found.matching
    evidence["nodes_open"] = found.open
    evidence["gpus_unhealthy"] = found.unhealthy_gpus
    return evidence


# ── 4. not even one pod ──────────────────────────────────────────────────────


def _no_room(cluster: Cluster, found: Survey, gang: Gang, demand: PodDemand) -> Refusal | None:
    if room_for(cluster, found.kinds, demand, gang.team, 1, distinct=False):
        return None
    evidence = _filter_evidence(found)
    needs = pod_needs(demand, gang)
    if demand.profile:
        return _no_slices(found.kinds, demand, needs, evidence)
    if demand.milli:
        return _no_share(found.kinds, gang.team, demand, needs, evidence)
    return _no_whole(found, demand, needs, evidence)


def _no_whole(found: Survey, demand: PodDemand, needs: str, evidence: dict[str, int]) -> Refusal:
    free = free_gpus(found.kinds, demand)
    short_cpu = free.with_gpus - free.with_cpu
    evidence |= {
        "nodes_with_free_gpus": free.with_gpus,
        "nodes_short_of_cpu": short_cpu,
        "nodes_short_of_memory": free.with_cpu,
        "gpus_free": free.free,
        "best_node_gpus_free": free.best_free,
    }
    head = f"One node must have {needs}"
    if demand.aligned and free.with_cpu:
        return _not_aligned(found, demand, head, evidence)
    if demand.gpus and not free.with_gpus:
        message = (
            f"{head}; the best of {found.open}, {free.best_node}, has {free.best_free} free "
            f"({free.free} in all)."
        )
        help_ = "Wait for GPUs to come free, or ask for fewer on one node."
    else:
        of = f"of {count(found.open, 'node')}"
        have = f"{of} {free.with_gpus} have the GPUs, but" if demand.gpus else of
        message = f"{head}; {have} {short_cpu} lack CPU and {free.with_cpu} memory."
        help_ = "Ask for less CPU or memory, or wait for pods to end."
    return Refusal(reason=Reason.NO_CAPACITY, message=message, next_step=help_, evidence=evidence)


def _not_aligned(found: Survey, demand: PodDemand, head: str, evidence: dict[str, int]) -> Refusal:
    best = free_by_numa(found.kinds, demand)
    return Refusal(
        reason=Reason.NO_CAPACITY,
        message=f"{head}; {count(evidence['nodes_with_free_gpus'], 'node')} of {found.open} have "
        f"{demand.gpus} GPUs free, but the best of them, {best.best_node}, "
        f"has {best.best_gpus} in one NUMA domain.",
        next_step="Wait for GPUs to come free, or leave topology.numa_aligned out.",
        evidence=evidence | {"best_numa_domain_gpus_free": best.best_gpus},
    )


def _no_share(
    kinds: tuple[Kind, ...], team: str, demand: PodDemand, needs: str, evidence: dict[str, int]
) -> Refusal:
    whole = free_gpus(kinds, demand)
    shares = free_shares(kinds, team)
    evidence |= {
        "gpus_free": whole.free,
        "gpus_shared_by_team": shares.team_gpus,
        "best_shared_milli_free": shares.best_milli,
    }
    if whole.free or shares.best_milli >= demand.milli:
        why = "those with enough milli-GPU lack GPU memory, or their nodes lack CPU or memory"
    else:
        why = "no GPU is free to be opened"
    return Refusal(
        reason=Reason.NO_CAPACITY,
        message=f"One GPU must have {needs}; team {team} shares "
        f"{count(shares.team_gpus, 'GPU')} with at most {shares.best_milli} milli-GPU free, "
        f"{count(whole.free, 'GPU')} are free, and {why}.",
        next_step="Wait for shares to end, or ask for less of a GPU, CPU or memory.",
        evidence=evidence,
    )


def _no_slices(
    kinds: tuple[Kind, ...], demand: PodDemand, needs: str, evidence: dict[str, int]
) -> Refusal:
    slices = free_slices(kinds, demand)
    evidence |= {
        "mig_gpus": slices.gpus,
        "mig_slices_free": slices.free_slices,
        "mig_best_slices_free": slices.best_free_slices,
        "mig_positions_free": slices.positions,
        "mig_slices_needed": slices.size,
    }
    have = (
        f"{count(slices.gpus, 'GPU')} in MIG mode have {slices.free_slices} free eighths, "
        f"at most {slices.best_free_slices} on one"
    )
    reason = Reason.NO_CAPACITY
    if not slices.gpus:
        reason = Reason.NO_MIG_POSITION
        message = f"A pod needs {needs}, but no healthy GPU that matches is in MIG mode."
        help_ = "Ask for a whole GPU or a share, or ask an operator to switch GPUs to MIG."
    elif slices.positions:
        message = (
            f"One node must have {needs}; {have}, with {slices.positions} legal positions, "
            "but on no node enough of them together with the CPU and memory."
        )
        help_ = "Ask for fewer instances, less CPU or memory, or wait for pods to end."
    elif slices.best_free_slices >= slices.size:
        reason = Reason.NO_MIG_POSITION
        message = (
            f"A pod needs {needs} ({slices.size} eighths of a GPU); {have}, but at no legal start."
        )
        help_ = "Wait for instances to end, or choose a smaller profile."
    else:
        message = f"A pod needs {needs} ({slices.size} eighths of a GPU); {have}."
        help_ = "Wait for instances to end, or choose a smaller profile."
    return Refusal(reason=reason, message=message, next_step=help_, evidence=evidence)


# ── 5 to 7. the gang ─────────────────────────────────────────────────────────


def _gang(cluster: Cluster, request: PlacementRequest, gang: Gang) -> Refusal:
    for demand in gang.demands:
        found = survey(cluster, gang, demand, request.flavors)
        short = _short(cluster, found, gang, demand, request.flavors)
        if short is not None:
            return short
    if constrained(gang):
        near = nearest_domain(cluster, gang, request.flavors)
        near = near or nearest_slices(cluster, gang, request.flavors)
        if near is not None:
            return near
    sets = listing([f"{each.count} x {pod_needs(each, gang)}" for each in gang.demands])
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Each pod set finds room by itself, but not all together: {sets}.",
        next_step="Wait for room, or split the workload, or make its pods alike.",
        evidence={"pods_needed": gang.pods},
    )


def _short(
    cluster: Cluster, found: Survey, gang: Gang, demand: PodDemand, flavors: tuple[str, ...]
) -> Refusal | None:
    """A refusal if no single flavor has room for all pods of the set."""
    distinct = gang.spread is Spread.REQUIRED
    best_room, best_flavor = -1, ""
    for flavor in flavors:
        kinds = tuple(kind for kind in found.kinds if kind.key.flavor == flavor)
        room = room_for(cluster, kinds, demand, gang.team, demand.count, distinct=distinct)
        if room > best_room:
            best_room, best_flavor = room, flavor
    if best_room >= demand.count:
        return None
    free = free_gpus(found.kinds, demand)
    apart = ", each on a node of its own" if distinct else ""
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Needs {demand.count} pods with {pod_needs(demand, gang)}{apart}; "
        f"flavor {best_flavor} has room for {best_room} "
        f"({count(free.free, 'whole GPU')} free in all).",
        next_step=f"Wait for room for {demand.count - best_room} more, or ask for fewer or "
        "smaller pods.",
        evidence=_filter_evidence(found)
        | {"pods_needed": demand.count, "pods_fit": best_room, "gpus_free": free.free},
    )
