"""How the pods of a gang are laid out: in the smallest span of the fabric, or anywhere.

Under a topology request the spans are tried from one node upwards. At each level the candidates
are the domains with room for every pod set, the fullest first (tight fit: emptier domains survive
for larger gangs). Inside a domain the tightest part that holds all that is left is taken, else the
largest part and so on, which touches the fewest parts (exact for pods of one shape).
Room is first counted by devices alone, for which few indexes serve all shapes; only when CPU or
memory got in the way is it counted exactly for the shape.
Without a topology request each pod goes to its best place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Final

from shared.core.cluster import Cluster
from shared.core.demand import Gang, PodDemand
from shared.core.devices import node_room, shares_on
from shared.core.exact import Exhaustive, unlike
from shared.core.feasibility import Tiers
from shared.core.fill import Fill, Layout
from shared.core.kind import Kind
from shared.core.model import Level, Spread
from shared.core.node_state import NodeState
from shared.core.ranks import slices_hold
from shared.core.room import RoomIndex, room_index
from shared.core.search import Nodes, Place, candidates, find, find_by_mix
from shared.core.statement import Statement
from shared.core.topology import Domain, levels_to_try

PLACES_BY_DEVICES_MAX: Final = 4
"""Places tried at one level by a count that leaves CPU and memory out."""
PLACES_MAX: Final = 64
"""Places tried at one level. Pods of one shape need one; unlike ones may need more."""
COUNTED_MIN: Final = 64
"""Pods up to which a gang without a topology request is tried without counting room before."""
COMPARED_MAX: Final = 4
"""The tightest blocks or zones, of which the one is taken that is touched in the fewest parts."""


def lay_out(
    cluster: Cluster, gang: Gang, tiers: tuple[Tiers, ...], statement: Statement, flavor: str
) -> bool:
    """Charge the whole gang through `statement`; or nothing, and False."""
    layout = Layout(cluster, gang, tiers, statement, Exhaustive(gang, statement), flavor)
    if not constrained(gang):
        return _anywhere(layout)
    if gang.spread is not Spread.NONE and _in_smallest_span(layout, distinct=True):
        return True
    if gang.spread is not Spread.REQUIRED and _in_smallest_span(layout, distinct=False):
        return True
    if gang.topology.required is not None:
        return False
    return _in_fleet(layout) if gang.shaped else _anywhere(layout)


def constrained(gang: Gang) -> bool:
    """Whether the fabric matters: one pod is always together."""
    topology = gang.topology
    level = topology.required or topology.preferred
    return gang.pods > 1 and (level is not None or gang.shaped)


# ── anywhere ─────────────────────────────────────────────────────────────────


def _anywhere(layout: Layout) -> bool:
    statement, gang = layout.statement, layout.gang
    many = gang.pods > COUNTED_MIN or any(demand.instances > 1 for demand in gang.demands)
    if many and not _each_set_counts(layout):
        return False
    if _each_at_its_best(layout):
        return True
    statement.rollback()
    if not unlike(gang) or not _each_set_alone(layout):
        return False
    return layout.exhaustive.place(
        lambda demand: candidates(layout.kinds(demand), demand, gang.team),
        distinct=gang.spread is Spread.REQUIRED,
    )


def _each_at_its_best(layout: Layout) -> bool:
    gang = layout.gang
    used: set[NodeState] = set()
    apart = gang.spread is not Spread.NONE
    for demand, tiers in zip(gang.demands, layout.tiers, strict=True):
        if demand.count > 1 and not _may_hold(tiers, demand):
            return False
        for _ in range(demand.count):
            found = _best_place(layout, tiers, demand, used if apart else ())
            if found is None and gang.spread is Spread.PREFERRED:
                found = _best_place(layout, tiers, demand, ())
            if found is None:
                return False
            layout.statement.charge(demand, *found)
            if apart:
                used.add(found[0])
    return True


def _may_hold(tiers: Tiers, demand: PodDemand) -> bool:
    """Whether enough whole GPUs are free on nodes that have enough of them. O(kinds x GPUs)."""
    if not demand.gpus:
        return True
    pods = sum(
        shelf.size * (free // demand.gpus)
        for kinds in tiers
        for kind in kinds
        for free, shelf in enumerate(kind.by_free)
        if free >= demand.gpus
    )
    return pods >= demand.count


def _best_place(layout: Layout, tiers: Tiers, demand: PodDemand, exclude: Nodes) -> Place | None:
    """By the learned mix for single pods; members of gangs sit tight, as do pods with MIG."""
    if demand.aligned:
        return _aligned_place(layout, tiers, demand, exclude)
    market = layout.cluster.market(layout.flavor)
    if layout.gang.pods == 1 and market.learned and not demand.profile:
        return find_by_mix(market, tiers, demand, layout.gang.team, exclude)
    return find(tiers, demand, layout.gang.team, exclude)


def _aligned_place(
    layout: Layout, tiers: Tiers, demand: PodDemand, exclude: Nodes
) -> Place | None:
    """The node with the least room of any for pods within one NUMA domain."""
    team = layout.gang.team
    for kinds in tiers:
        index = room_index(layout.cluster, kinds, demand, team, distinct=False)
        for _, _, node in index.at_least(Level.NODE, 1, layout.gang.pods):
            assert isinstance(node, NodeState)
            if node not in exclude:
                return node, shares_on(node, demand, team)
    return None


def _each_set_counts(layout: Layout) -> bool:
    """Whether there is room for as many pods as each set has; what is large is not tried else."""
    return all(
        room_index(
            layout.cluster,
            layout.kinds(demand),
            replace(demand, slices=()),
            layout.gang.team,
            distinct=layout.gang.spread is Spread.REQUIRED,
        ).total
        >= demand.count
        for demand in layout.gang.demands
    )


def _each_set_alone(layout: Layout) -> bool:
    """Whether every pod set would find room without the others; else no order can help."""
    gang = layout.gang
    for demand, tiers in zip(gang.demands, layout.tiers, strict=True):
        alone = replace(layout, gang=replace(gang, demands=(demand,)), tiers=(tiers,))
        fits = _each_at_its_best(alone)
        layout.statement.rollback()
        if not fits:
            return False
    return True


# ── in one domain ────────────────────────────────────────────────────────────


def _in_smallest_span(layout: Layout, *, distinct: bool) -> bool:
    """The preferred products alone first, then with the less preferred."""
    for tier_count in range(1, max(map(len, layout.tiers)) + 1):
        kinds = tuple(sum(tiers[:tier_count], ()) for tiers in layout.tiers)
        for level in levels_to_try(layout.gang.topology.required):
            if _at_level(layout, kinds, level, distinct=distinct):
                return True
    return False


def _in_fleet(layout: Layout) -> bool:
    """Pods that ask for places near each other, in no domain that holds them all."""
    kinds = tuple(sum(tiers, ()) for tiers in layout.tiers)
    apart = [True] if layout.gang.spread is not Spread.NONE else []
    for distinct in (*apart, *([] if layout.gang.spread is Spread.REQUIRED else [False])):
        if _fill_all(layout, kinds, None, distinct=distinct):
            return True
        layout.statement.rollback()
    return False


def _at_level(
    layout: Layout, kinds: tuple[tuple[Kind, ...], ...], level: Level, *, distinct: bool
) -> bool:
    if level is Level.NODE:
        if distinct:
            return False
        if all(demand.adds_up for demand in layout.gang.demands):
            return _on_one_node(layout, kinds)
    # Slices are whole only where room is exact.
    if all(demand.wants_gpu and not demand.slices for demand in layout.gang.demands):
        by_devices = replace(layout, by_devices=True)
        places = _places(by_devices, kinds, level, distinct=distinct)
        if not places:
            return False
        for place in places:
            if _fill_all(by_devices, kinds, place, distinct=distinct):
                return True
            layout.statement.rollback()
    return _at_level_exactly(layout, kinds, level, distinct=distinct)


def _on_one_node(layout: Layout, kinds: tuple[tuple[Kind, ...], ...]) -> bool:
    """Whole GPUs, CPU and memory add up: the gang fits a node if its sum does as one pod."""
    allowed = tuple(kind for kind in kinds[0] if all(kind in others for others in kinds))
    found = find((allowed,), _together(layout.gang), layout.gang.team)
    return found is not None and _fill_all(layout, kinds, found[0], distinct=False)


def _at_level_exactly(
    layout: Layout, kinds: tuple[tuple[Kind, ...], ...], level: Level, *, distinct: bool
) -> bool:
    for place in _places(layout, kinds, level, distinct=distinct):
        if _fill_all(layout, kinds, place, distinct=distinct):
            return True
        layout.statement.rollback()
        if layout.gang.shaped or not unlike(layout.gang):
            continue
        if _exhaust(layout, kinds, place, distinct=distinct):
            return True
    return False


def _places(
    layout: Layout, kinds: tuple[tuple[Kind, ...], ...], level: Level, *, distinct: bool
) -> list[Domain | NodeState]:
    """Places of `level` where each shape of pod finds room if it were alone, tightest first."""
    gang = layout.gang
    needs: list[tuple[RoomIndex, int]] = []
    for demand, pods, allowed in _shapes(gang, kinds, level):
        counted = layout.counted(demand)
        index = room_index(layout.cluster, allowed, counted, gang.team, distinct=distinct)
        needs.append((index, pods))
    scarcest, pods = min(needs, key=lambda need: need[0].count_at_least(level, need[1]))
    places_max = PLACES_BY_DEVICES_MAX if layout.by_devices else PLACES_MAX
    places = [
        place
        for _, _, place in scarcest.at_least(level, pods, places_max)
        if all(index.room(place) >= pods for index, pods in needs)
    ]
    if level in (Level.BLOCK, Level.ZONE):
        places[:COMPARED_MAX] = sorted(
            places[:COMPARED_MAX], key=lambda place: _parts(scarcest, place, pods)
        )
    return places


def _parts(index: RoomIndex, place: Domain | NodeState, pods: int) -> int:
    """How many parts of `place` it takes to hold `pods`, the largest first."""
    assert isinstance(place, Domain), "no node is a place of a level that has parts"
    parts = 0
    for room, _, _ in reversed(index.children(place)):
        if pods <= 0:
            break
        parts += 1
        pods -= room
    return parts


def _shapes(
    gang: Gang, kinds: tuple[tuple[Kind, ...], ...], level: Level
) -> Iterator[tuple[PodDemand, int, tuple[Kind, ...]]]:
    """(demand, pods, kinds) of each shape; on one node, also all pods together as one."""
    counts = Counter[Hashable]()
    for demand in gang.demands:
        counts[demand.shape] += demand.count
    first = {demand.shape: at for at, demand in reversed(list(enumerate(gang.demands)))}
    for shape, at in first.items():
        yield gang.demands[at], counts[shape], kinds[at]
    if level is Level.NODE and len(first) > 1:
        together = _together(gang)
        yield together, 1, tuple(kind for kind in kinds[0] if all(kind in k for k in kinds))


def _together(gang: Gang) -> PodDemand:
    """All pods as one: whole GPUs, CPU and memory in sum. What one node must have at least."""
    return replace(
        gang.demands[0],
        aligned=False,
        gpus=sum(demand.gpus * demand.count for demand in gang.demands),
        milli=0,
        share_memory_mib=0,
        profile="",
        instances=0,
        cpu_milli=sum(demand.cpu_milli * demand.count for demand in gang.demands),
        memory_mib=sum(demand.memory_mib * demand.count for demand in gang.demands),
    )


def _exhaust(
    layout: Layout,
    kinds: tuple[tuple[Kind, ...], ...],
    place: Domain | NodeState,
    *,
    distinct: bool,
) -> bool:
    gang = layout.gang
    nodes = [place] if isinstance(place, NodeState) else sorted(place.nodes(), key=_rank)
    return layout.exhaustive.place(
        lambda demand: (
            node
            for node in nodes
            if node.kind in kinds[gang.demands.index(demand)]
            and node_room(node, demand, gang.team)
        ),
        distinct=distinct,
    )


def _rank(node: NodeState) -> int:
    """Domains hold their nodes in the order of reports, on which nothing may depend."""
    return node.rank


def _fill_all(
    layout: Layout,
    kinds: tuple[tuple[Kind, ...], ...],
    place: Domain | NodeState | None,
    *,
    distinct: bool,
) -> bool:
    """The whole gang in `place`, or anywhere in the fleet."""
    used: set[NodeState] | None = set() if distinct else None
    for demand, allowed in zip(layout.gang.demands, kinds, strict=True):
        fill = Fill(layout, demand, allowed, used)
        if demand.leader:
            placed = fill.beside([node for _, node, _ in layout.statement.pods], place)
        elif place is None:
            placed = fill.anywhere(demand.count)
        else:
            placed = fill.into(place, demand.count)
        if placed < demand.count:
            return False
    return not layout.gang.shaped or slices_hold(layout.statement.pods)
