"""Where a gang goes: whole, in one flavor, or not at all.

`place` tries, in this order, and takes the first that works:
1. the permitted flavors, in the order quota gave; one with too little headroom is skipped;
2. inside a flavor, topology levels from the smallest span to the widest allowed
   (core/cluster/topology.py);
3. the pod sets, the hungriest first; each pod at its best place: a single pod where it leaves
   most that the learned mix of demand can use (core/scoring/packing_index.py), a gang's pod by
   core/placement/search.py: preferred products, fewest free GPUs that suffice, CPU kept for the
   GPUs left free, seeded rank; a leader comes last, beside the others; slices lie whole in their
   domains (core/placement/gang/fill.py);
4. if pods of different shapes get in each other's way, a bounded search over other orders;
5. of an elastic gang the most that fits, down to its least (core/placement/gang/elastic.py).
A pod that finds no place takes the gang back to where it stood (core/cluster/statement.py). When
nothing worked, core/placement/explain/explain.py says what was missing, by how much, and what
would help.

Filters (core/placement/feasibility.py) are asked once for each kind of node: flavor, pool, taints,
product, GPU memory, driver, CUDA, MIG profile. Cordoned, unready and unhealthy nodes are on no
free list.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from shared.core.cluster.node_class import NodeClass
from shared.core.cluster.statement import Statement
from shared.core.cluster.topology import span_of
from shared.core.model.decision import Refusal
from shared.core.model.demand import Gang, PodDemand, choice_key, gang_of, pod_set_shape
from shared.core.model.nouns import Placement, Workload
from shared.core.model.request import PlacementRequest
from shared.core.model.units import NOTHING
from shared.core.placement.explain import explain
from shared.core.placement.feasibility import node_class_obstacle
from shared.core.placement.gang import attempt, attempt_most, grow, ranked, spare_units
from shared.core.scoring import Cluster, node_room

__all__ = [
    "PlacementRequest",
    "explain",
    "grow",
    "helps",
    "place",
    "request_class",
]


def place(cluster: Cluster, request: PlacementRequest) -> Placement | Refusal:
    """A placement, with `cluster` charged already; or the reason, with nothing changed."""
    gang = gang_of(request.workload, request.pins)
    found = first_fit(cluster, gang, request)
    if found is not None:
        flavor, statement = found
        cluster.packing(flavor).mix.note(gang, placed=True)
        return placement_of(flavor, statement)
    if not request.asked_before:
        _note_refused(cluster, gang, request.flavors)
    return explain(cluster, request)


def first_fit(
    cluster: Cluster, gang: Gang, request: PlacementRequest
) -> tuple[str, Statement] | None:
    """The flavor that takes the gang, and what was charged for it; None, and nothing charged.

    Whole in the first flavor that takes it so; in none, then as much of an elastic gang as fits.
    """
    for tried in (attempt, attempt_most) if spare_units(gang) else (attempt,):
        for flavor in request.flavors:
            statement = tried(cluster, gang, flavor, request.headroom.get(flavor, NOTHING))
            if statement is not None:
                return flavor, statement
    return None


def _note_refused(cluster: Cluster, gang: Gang, flavors: Sequence[str]) -> None:
    for flavor in flavors[:1]:
        cluster.packing(flavor).mix.note(gang, placed=False)


def learn(cluster: Cluster, workload: Workload, flavor: str) -> None:
    """Count a workload that was placed earlier as demand, when memory is rebuilt from rows."""
    cluster.packing(flavor).mix.note(gang_of(workload), placed=True)


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


def helps(
    cluster: Cluster, node_names: Iterable[str], workload: Workload, pins: tuple[int, ...] = ()
) -> bool:
    """Whether `workload`, refused before, may fit now that these nodes changed for the better.

    Never wrong with a no: a gang that fits only now must put at least one pod on one of them.
    Room for one pod of any of its sets there is therefore enough for a yes.
    """
    gang = gang_of(workload, pins)
    permitting: dict[NodeClass, list[PodDemand]] = {}
    for name in node_names:
        state = cluster.nodes.get(name)
        if state is None or state.node_class is None:
            continue
        demands = permitting.get(state.node_class)
        if demands is None:
            demands = permitting[state.node_class] = _permitted_on(state.node_class, gang)
        if any(node_room(state, demand, gang.team) for demand in demands):
            return True
    return False


def _permitted_on(node_class: NodeClass, gang: Gang) -> list[PodDemand]:
    flavor = node_class.key.flavor
    return [
        demand
        for demand in gang.demands
        if node_class_obstacle(node_class, gang, demand, flavor) is None
    ]


def placement_of(flavor: str, statement: Statement) -> Placement:
    """What `statement` charged, as a value."""
    return Placement(
        flavor=flavor,
        pods=ranked(statement.pods),
        charge=statement.charge_sum(),
        span=span_of(node for _, node, _ in statement.pods),
    )
