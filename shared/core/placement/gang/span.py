"""A gang as close together as can be: the spans of the fabric are tried from one node upwards.

At each level the places that come in question (places.py) are filled one after the other until
one holds the gang; inside, as few parts as can be are touched (fill.py).
Pods that would rather be apart are tried on nodes of their own at every level first, then on as
many nodes as any place that is allowed has for them (apart.py), then as if they had said nothing.
Room is first counted by devices alone, for which few indexes serve all shapes; only when CPU or
memory got in the way is it counted exactly for the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.topology import levels_to_try
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import Level, Spread
from shared.core.placement.gang.apart import most_apart, taken
from shared.core.placement.gang.exact import unlike
from shared.core.placement.gang.fill import Fill, Layout
from shared.core.placement.gang.orders import Order
from shared.core.placement.gang.places import Trial, gpus_together, needed, places, together
from shared.core.placement.gang.ranks import slices_hold
from shared.core.placement.room import Place
from shared.core.placement.search import candidates, find
from shared.core.scoring import node_room

_SPREADS: Final[Mapping[Spread, tuple[Spread, ...]]] = {
    Spread.NONE: (Spread.NONE,),
    Spread.PREFERRED: (Spread.REQUIRED, Spread.PREFERRED, Spread.NONE),
    Spread.REQUIRED: (Spread.REQUIRED,),
}
"""How far apart the pods are, in the order in which it is tried."""


def in_smallest_span(layout: Layout) -> bool:
    """Charge the whole gang in one place, the preferred products alone first; or nothing."""
    return any(
        _on_most_nodes(layout) if spread is Spread.PREFERRED else _nearest(layout, spread)
        for spread in _SPREADS[layout.gang.spread]
    )


def in_fleet(layout: Layout) -> bool:
    """Pods that ask for places near each other, in no domain that holds them all."""
    apart = layout.gang.spread is Spread.REQUIRED
    trial = _trial(layout, Spread.REQUIRED if apart else Spread.NONE)
    return _holds(trial, None) or (_each_set_fits(trial) and _holds_in_other_order(trial, None))


def _each_set_fits(trial: Trial) -> bool:
    """Whether every set would find room alone, and all their GPUs; else no order can help."""
    return unlike(trial.layout.gang) and all(
        sum(room for room, _, _ in index.tops()) >= pods
        for index, pods in (*needed(trial, Level.ZONE), *gpus_together(trial))
    )


def _nearest(layout: Layout, spread: Spread) -> bool:
    return any(
        _at_level(_trial(layout, spread, tier_count), level)
        for tier_count in range(1, max(map(len, layout.tiers)) + 1)
        for level in levels_to_try(layout.gang.topology.required)
    )


def _on_most_nodes(layout: Layout) -> bool:
    """Other products are no reason to share a node: all tiers at once."""
    trial = _trial(layout, Spread.PREFERRED)
    return any(_holds(trial, place) for place in most_apart(trial))


def _trial(layout: Layout, spread: Spread, tier_count: int | None = None) -> Trial:
    """With the first tiers of node classes, or all of them."""
    node_classes = tuple(sum(tiers[:tier_count], ()) for tiers in layout.tiers)
    return Trial(layout, node_classes, spread)


def _at_level(trial: Trial, level: Level) -> bool:
    demands = trial.layout.gang.demands
    if level is Level.NODE:
        if trial.distinct:
            return False
        if all(demand.adds_up for demand in demands):
            return _on_one_node(trial)
    # Slices are whole only where room is exact.
    if all(demand.wants_gpu and not demand.slices for demand in demands):
        by_devices = replace(trial, layout=replace(trial.layout, by_devices=True))
        found = places(by_devices, level)
        if not found:
            return False
        if any(_holds(by_devices, place) for place in found):
            return True
    return any(
        _holds(trial, place) or _holds_in_other_order(trial, place)
        for place in places(trial, level)
    )


def _on_one_node(trial: Trial) -> bool:
    """Whole GPUs, CPU and memory add up: the gang fits a node if its sum does as one pod."""
    gang = trial.layout.gang
    found = find((trial.common_node_classes,), together(gang), gang.team)
    return found is not None and _holds(trial, found[0])


def _holds(trial: Trial, place: Place | None) -> bool:
    """Charge the whole gang in `place`, or anywhere in the fleet; or nothing, and False."""
    if _fill(trial, place, range(len(trial.node_classes))):
        return True
    trial.layout.statement.rollback()
    return False


def _fill(trial: Trial, place: Place | None, order: Iterable[int]) -> bool:
    layout = trial.layout
    used: set[NodeState] | None = set() if trial.distinct else None
    for at in order:
        demand = layout.gang.demands[at]
        left = demand.count
        passed_over = taken(layout.nodes) if trial.spread is Spread.PREFERRED else (used,)
        for nodes in passed_over:
            left -= Fill(layout, demand, trial.node_classes[at], nodes).put(left, place)
            if not left:
                break
        if left:
            return False
    return not layout.gang.shaped or slices_hold(layout.statement.pods)


def _holds_in_other_order(trial: Trial, place: Place | None) -> bool:
    return unlike(trial.layout.gang) and (
        _holds_in_orders(trial, place) or _holds_exactly(trial, place)
    )


def _holds_in_orders(trial: Trial, place: Place | None) -> bool:
    """Whole sets in turn: for those with a shape, which a search finds harder to keep."""
    layout = trial.layout
    return layout.gang.shaped and any(_holds_in(trial, place, order) for order in layout.orders)


def _holds_exactly(trial: Trial, place: Place | None) -> bool:
    return trial.layout.exhaustive.place(
        lambda demand: _nodes(trial, demand, place), distinct=trial.distinct
    )


def _holds_in(trial: Trial, place: Place | None, order: Order) -> bool:
    statement = trial.layout.statement
    if _fill(trial, place, order):
        return True
    trial.layout.orders.spend(len(statement.pods))
    statement.rollback()
    return False


def _nodes(trial: Trial, demand: PodDemand, place: Place | None) -> Iterator[NodeState]:
    """Those in `place` that have room for a pod; do not change the cluster meanwhile."""
    gang = trial.layout.gang
    node_classes = trial.node_classes[gang.demands.index(demand)]
    if place is None:
        return candidates(node_classes, demand, gang.team)
    inside = [place] if isinstance(place, NodeState) else sorted(place.nodes(), key=_rank)
    return (
        node
        for node in inside
        if node.node_class in node_classes and node_room(node, demand, gang.team)
    )


def _rank(node: NodeState) -> int:
    """Domains hold their nodes in the order of reports, on which nothing may depend."""
    return node.rank
