"""The sum of the nodes of each flavor, and the largest gang that each level has devices for. Pure.

A part of the fabric is named by its whole path, as placement sees it: rack r1 of two blocks is two
racks. Taints decide which gangs count: a gang that names no pool, or one that names this pool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from services.gateway.fleet import mig
from services.gateway.fleet.held import Held
from services.gateway.fleet.rows import Row, cordoned, node_of, ready, unhealthy
from services.gateway.fleet.views import FlavorSummary, FleetSummary, LargestGang, MigProfileUse
from shared.core.cluster.node_class import NodeClassKey, node_class_key
from shared.core.cluster.topology import LEVELS, paths_of
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import GpuChoice, Level, Node
from shared.core.placement.feasibility import obstacle

_ONE_GPU: Final = PodDemand(
    pod_set="",
    count=1,
    first_rank=0,
    gpus=1,
    milli=0,
    share_memory_mib=0,
    profile="",
    instances=0,
    cpu_milli=0,
    memory_mib=0,
)
Part = tuple[Level | None, str]
"""A part of the fabric: its level (None: all of the flavor), and its path."""


class _Seen(NamedTuple):
    """A node with what is free of it."""

    node: Node
    key: NodeClassKey
    free: int
    """Whole GPUs that new work can have."""
    mig: tuple[MigProfileUse, ...]
    used_milli: int
    cordoned: bool
    unhealthy: int


@dataclass(slots=True)
class _Room:
    """Free GPUs of one part of the fabric."""

    gpus: int = 0
    full: int = 0
    nodes: int = 0


def summary_of(rows: Sequence[Row], held: Held) -> FleetSummary:
    """The sum by flavor of nodes as the read model has them; O(devices)."""
    by_flavor: dict[str, list[_Seen]] = defaultdict(list)
    for row in rows:
        node = node_of(row)
        by_flavor[node.flavor].append(_seen(row, node, held))
    return FleetSummary(
        items=tuple(_of_flavor(name, by_flavor[name]) for name in sorted(by_flavor))
    )


def _seen(row: Row, node: Node, held: Held) -> _Seen:
    is_ready, broken = ready(row, node), unhealthy(row, node)
    shut = cordoned(row, node) or bool(row["shunned_until_ms"])
    takes_work = is_ready and not shut
    free, used_milli = 0, 0
    for gpu in node.gpus:
        milli = sum(one.milli for one in held.of(node.name, gpu.index))
        used_milli += milli
        free += not milli and not gpu.mig and gpu.index not in broken
    profiles = (
        mig.of_device(node, gpu, held, usable=takes_work and gpu.index not in broken)
        for gpu in node.gpus
    )
    return _Seen(
        node=node,
        key=node_class_key(node),
        free=free if takes_work else 0,
        mig=mig.sum_of(profiles),
        used_milli=used_milli,
        cordoned=shut,
        unhealthy=len(broken) if is_ready else len(node.gpus),
    )


def _of_flavor(flavor: str, nodes: Sequence[_Seen]) -> FlavorSummary:
    return FlavorSummary(
        flavor=flavor,
        nodes=len(nodes),
        gpus=sum(len(one.node.gpus) for one in nodes),
        free_gpus=sum(one.free for one in nodes),
        used_gpu_milli=sum(one.used_milli for one in nodes),
        mig_gpus=sum(gpu.mig for one in nodes for gpu in one.node.gpus),
        mig_profiles=mig.sum_of(one.mig for one in nodes),
        cordoned_gpus=sum(len(one.node.gpus) for one in nodes if one.cordoned),
        unhealthy_gpus=sum(one.unhealthy for one in nodes),
        largest_gangs=tuple(_largest_gangs(flavor, nodes)),
    )


def _largest_gangs(flavor: str, nodes: Sequence[_Seen]) -> Iterator[LargestGang]:
    """Of all pools that a gang may name, and of none, the one with the most at each level."""
    best: dict[Level | None, LargestGang] = {}
    for pool in sorted({"", *(one.node.pool for one in nodes)}):
        rooms = _rooms([one for one in nodes if _open_to(pool, flavor, one.key)])
        for (level, place), room in sorted(rooms.items(), key=lambda one: one[0][1]):
            known = best.get(level)
            if known is None or (known.gpus, known.full_node_gpus) < (room.gpus, room.full):
                best[level] = LargestGang(
                    level=level,
                    place=place,
                    pool=pool,
                    gpus=room.gpus,
                    full_node_gpus=room.full,
                    nodes=room.nodes,
                )
    named = {level for one in nodes for level, _ in paths_of(one.node)}
    shown = (Level.NODE, *(level for level in LEVELS if level in named), None)
    return (best[level] for level in shown if level in best)


def _open_to(pool: str, flavor: str, key: NodeClassKey) -> bool:
    return obstacle(key, GpuChoice(node_pool=pool), _ONE_GPU, flavor) is None


def _rooms(nodes: Sequence[_Seen]) -> dict[Part, _Room]:
    rooms: dict[Part, _Room] = defaultdict(_Room)
    for one in nodes:
        for part in _parts(one.node):
            room = rooms[part]
            room.gpus += one.free
            room.nodes += bool(one.free)
            room.full += one.free if one.free == len(one.node.gpus) else 0
    return rooms


def _parts(node: Node) -> Iterator[Part]:
    """One of each level; at a level that it does not name, a node is alone."""
    named = {level: "/".join(filter(None, path)) for level, path in paths_of(node)}
    for level in LEVELS:
        yield level, named.get(level, node.name)
    yield None, ""
