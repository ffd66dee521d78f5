"""Where a gang goes: whole, in one flavor, or not at all.

`place` tries, in this order, and takes the first that works:
1. the permitted flavors, in the order quota gave; one whose headroom is too small is
   skipped;
2. inside a flavor, topology levels from the smallest span to the widest allowed
   (core/topology.py);
3. the pod sets, the hungriest first; each pod at its best place (core/search.py):
   preferred products, fewest free GPUs that suffice, CPU kept for the GPUs left free, seeded rank;
4. if pods of different shapes get in each other's way, a bounded search over other orders.
A pod that finds no place takes the gang back to where it stood (core/statement.py). When nothing
worked, `core.explain` says what was missing, by how much, and what would help.

Filters (core/feasibility.py) are asked once for each kind of node: flavor, pool, taints, product,
GPU memory, driver, CUDA, MIG profile. Cordoned, unready and unhealthy nodes are on no shelf.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import Gang, choice_key, gang_of, pod_set_shape
from shared.core.feasibility import permitted
from shared.core.model import Placement, PodPlacement, Spread, Workload
from shared.core.node_state import NodeState
from shared.core.search import find
from shared.core.statement import Statement
from shared.core.units import NOTHING, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """A workload that may be tried, and how far: see the fields."""

    workload: Workload
    flavors: tuple[str, ...]
    """Permitted flavors, in the order to try them."""
    headroom: Mapping[str, Resources]
    """Quota still free in each flavor: the charge must fit; a flavor not named has none."""


def place(cluster: Cluster, request: PlacementRequest) -> Placement | Refusal:
    """A placement, with `cluster` charged already; or the reason, with nothing changed."""
    gang = gang_of(request.workload)
    for flavor in request.flavors:
        headroom = request.headroom.get(flavor, NOTHING)
        placement = place_in(cluster, gang, flavor, headroom)
        if placement is not None:
            return placement
    return Refusal(reason=Reason.NO_CAPACITY, message="no room", next_step="wait")


def place_in(cluster: Cluster, gang: Gang, flavor: str, headroom: Resources) -> Placement | None:
    """The whole gang in one flavor within `headroom`, charged; or None and nothing changed."""
    statement = Statement(cluster, gang.team)
    if not _place_pods(cluster, gang, flavor, statement):
        statement.rollback()
        return None
    charge = charge_of(statement)
    if not charge.fits_in(headroom):
        statement.rollback()
        return None
    return Placement(flavor=flavor, pods=_pods(statement), charge=charge)


def request_class(workload: Workload) -> Hashable:
    """Equal classes get the same answer from the same cluster, flavors and headroom.

    A waiting index tries each class once for each change. The team matters only to shares of a
    GPU, which has one owner.
    """
    spec = workload.spec
    shares = any(pod_set.gpu.milli for pod_set in spec.pod_sets)
    return (
        tuple(pod_set_shape(pod_set) for pod_set in spec.pod_sets),
        choice_key(spec.gpu_choice),
        spec.topology,
        spec.spread,
        workload.team if shares else "",
    )


def helps(cluster: Cluster, node_name: str, workload: Workload) -> bool:
    """Whether `workload`, refused before, may fit now that `node_name` changed for the better.

    Never wrong with a no: a gang that fits only now must put at least one pod on that node.
    Room for one pod of any of its sets there is therefore enough for a yes.
    """
    state = cluster.nodes.get(node_name)
    return state is not None and state.inventory is not None and bool(workload)


def _place_pods(cluster: Cluster, gang: Gang, flavor: str, statement: Statement) -> bool:
    used: set[NodeState] = set()
    for demand in gang.demands:
        tiers = permitted(cluster, gang, demand, flavor)
        for _ in range(demand.count):
            exclude = used if gang.spread is not Spread.NONE else ()
            found = find(tiers, demand, gang.team, exclude)
            if found is None and gang.spread is Spread.PREFERRED:
                found = find(tiers, demand, gang.team)
            if found is None:
                return False
            statement.charge(demand, *found)
            used.add(found[0])
    return True


def charge_of(statement: Statement) -> Resources:
    """What quota counts for everything charged."""
    gpu_milli = cpu_milli = memory_mib = 0
    for demand, _, shares in statement.pods:
        for share in shares:
            gpu_milli += share.milli
        cpu_milli += demand.cpu_milli
        memory_mib += demand.memory_mib
    return Resources(gpu_milli=gpu_milli, cpu_milli=cpu_milli, memory_mib=memory_mib)


def _pods(statement: Statement) -> tuple[PodPlacement, ...]:
    ranks: dict[str, int] = {}
    pods = []
    for demand, node, shares in statement.pods:
        rank = ranks.get(demand.pod_set, demand.first_rank)
        ranks[demand.pod_set] = rank + 1
        pods.append(PodPlacement(pod_set=demand.pod_set, rank=rank, node=node.name, shares=shares))
    pods.sort(key=lambda pod: pod.rank)
    return tuple(pods)
