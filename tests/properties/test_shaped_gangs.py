"""Gangs with a leader or with slices beside other sets: found whenever there is any way at all.

Whether there is one is answered by trying all of them on small fleets, apart from the core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.cluster.topology import LEVELS
from shared.core.model.nouns import (
    GpuChoice,
    Level,
    Node,
    Placement,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.properties.test_gang_properties import distance, part_of
from tests.support import placing

Free = dict[Node, tuple[int, int]]
"""(GPUs, milli-CPU) by node."""
Counts = Mapping[Node, int]
"""Pods of one set by node."""


def any_fleet(draw: Random) -> tuple[Node, ...]:
    return tuple(
        placing.node(
            f"n{number}",
            gpus=draw.randint(0, 4),
            cpu_milli=draw.choice((4000, 6000, 9000)),
            zone=draw.choice(("z1", "z1", "z2")),
            block=draw.choice(("b1", "b2")),
            rack=draw.choice(("r1", "r2")),
            nvlink_domain=draw.choice(("", "", "v1")),
            product=draw.choice(("A", "A", "B")),
        )
        for number in range(draw.randint(1, 6))
    )


def any_set(draw: Random, name: str) -> PodSet:
    gpu = placing.whole(draw.choice((0, 1, 1, 2)))
    cpu_milli = draw.choice((0, 1000, 2000, 5000))
    made = placing.pods(gpu, draw.randint(1, 4), name=name, cpu_milli=cpu_milli)
    if made.count == 1 or draw.random() < 0.5:
        return made
    inner = Slice(pods=2, level=Level.NODE)
    outer = Slice(pods=made.count, level=draw.choice(LEVELS[:4]))
    nested = made.count == 4 and outer.level is not Level.NODE and draw.random() < 0.5
    return replace(made, slices=(outer, inner) if nested else (outer,))


def any_asked(draw: Random) -> Workload:
    sets = [any_set(draw, f"s{number}") for number in range(draw.choice((2, 2, 3)))]
    if draw.random() < 0.6:
        at = draw.randrange(len(sets))
        sets[at] = replace(sets[at], count=1, slices=(), role=PodRole.LEADER)
    return placing.workload(
        *sets,
        choice=GpuChoice(products=draw.choice(((), (), ("A",)))),
        topology=TopologyRequest(required=draw.choice((None, None, Level.RACK, Level.ZONE))),
        spread=draw.choice((Spread.NONE, Spread.NONE, Spread.PREFERRED, Spread.REQUIRED)),
    )


def feasible(free: Free, asked: Workload) -> bool:
    required = asked.spec.topology.required
    regions: dict[Hashable, Free] = defaultdict(dict)
    for node, left in free.items():
        regions[part_of(node, required) if required else ""][node] = left
    return any(
        fits(region, asked, asked.spec.pod_sets, frozenset()) for region in regions.values()
    )


def fits(free: Free, asked: Workload, sets: Sequence[PodSet], used: frozenset[Node]) -> bool:
    """Whether these sets find room, no two pods on one node where that is required."""
    if not sets:
        return True
    first, *others = sets
    products = asked.spec.gpu_choice.products if first.gpu.count else ()
    nodes = [node for node in free if not products or node.product in products]
    apart = asked.spec.spread is Spread.REQUIRED
    if apart:
        nodes = [node for node in nodes if node not in used]
    for counts in ways(free, first, nodes, first.count, 1 if apart else first.count):
        if not whole(counts, first.slices):
            continue
        left = dict(free)
        for node, pods in counts.items():
            gpus, cpu_milli = left[node]
            left[node] = gpus - pods * first.gpu.count, cpu_milli - pods * (first.cpu_milli or 0)
        if fits(left, asked, others, used | {*counts}):
            return True
    return False


def ways(
    free: Free, pod_set: PodSet, nodes: Sequence[Node], pods: int, most: int
) -> Iterator[Counts]:
    """All ways to give `pods` equal pods to nodes, at most `most` to each."""
    if not pods:
        yield {}
    elif nodes:
        first, *others = nodes
        gpus, cpu_milli = free[first]
        room = min(most, pods)
        if pod_set.gpu.count:
            room = min(room, gpus // pod_set.gpu.count)
        if pod_set.cpu_milli:
            room = min(room, cpu_milli // pod_set.cpu_milli)
        for here in range(room, -1, -1):
            for rest in ways(free, pod_set, others, pods - here, most):
                yield {first: here, **rest} if here else rest


def whole(counts: Counts, slices: Sequence[Slice]) -> bool:
    """Whether the pods can be told off into slices that lie each in one domain."""
    if not slices:
        return True
    parts: dict[Hashable, dict[Node, int]] = defaultdict(dict)
    for node, pods in counts.items():
        parts[part_of(node, slices[0].level)][node] = pods
    return all(
        sum(part.values()) % slices[0].pods == 0 and whole(part, slices[1:])
        for part in parts.values()
    )


def check(nodes: Mapping[str, Node], asked: Workload, answer: Placement) -> None:
    held = {
        each.name: [nodes[pod.node] for pod in answer.pods if pod.pod_set == each.name]
        for each in asked.spec.pod_sets
    }
    for each in asked.spec.pod_sets:
        assert len(held[each.name]) == each.count
        for part in each.slices:
            for at in range(0, each.count, part.pods):
                run = held[each.name][at : at + part.pods]
                assert len({part_of(node, part.level) for node in run}) == 1
        if each.role is PodRole.LEADER:
            (leader,) = held[each.name]
            for other in asked.spec.pod_sets:
                distances = [distance(leader, node) for node in held[other.name]]
                assert distances[0] == min(distances)
    used = [node for each in held.values() for node in each]
    required = asked.spec.topology.required
    assert required is None or len({part_of(node, required) for node in used}) == 1
    assert asked.spec.spread is not Spread.REQUIRED or len({*used}) == len(used)


def fill_some(fleet: Cluster, draw: Random) -> None:
    for _ in range(draw.randint(0, 2)):
        pod_set = placing.pods(placing.whole(draw.choice((0, 1))), cpu_milli=1000)
        place(fleet, placing.request(placing.workload(pod_set)))


@given(st.integers(0, 10**7))
def test_shaped_gangs_are_found_whenever_there_is_any_way(seed: int) -> None:
    draw = Random(seed)
    nodes = {node.name: node for node in any_fleet(draw)}
    fleet = placing.cluster(*nodes.values(), seed=seed % 7)
    fill_some(fleet, draw)
    asked = any_asked(draw)
    before, states = fleet.digest(), fleet.nodes
    free = {
        node: (states[name].free_count, states[name].free_cpu_milli)
        for name, node in nodes.items()
    }

    answer = place(fleet, placing.request(asked))

    assert isinstance(answer, Placement) == feasible(free, asked), answer
    if isinstance(answer, Placement):
        check(nodes, asked, answer)
    else:
        assert fleet.digest() == before
