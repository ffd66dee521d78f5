"""Pods that would rather be apart lie on as many nodes as counting finds for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.nouns import Level, Node, Placement, Spread, TopologyRequest, Workload
from shared.core.model.value import replace
from shared.core.placement.place import grow, place
from shared.core.scoring.cluster import Cluster
from tests.support import placing


def any_fleet(draw: Random) -> tuple[Node, ...]:
    labelled = draw.random() < 0.7
    return tuple(
        placing.node(
            f"n{number}",
            gpus=draw.randint(0, 4),
            cpu_milli=draw.choice((1000, 3000, 9000)),
            zone=draw.choice(("z1", "z1", "z2")) if labelled else "",
            block=draw.choice(("b1", "b2")) if labelled else "",
            rack=draw.choice(("r1", "r2")) if labelled else "",
        )
        for number in range(draw.randint(1, 8))
    )


def region(node: Node, required: Level | None) -> Hashable:
    """What pods that require this level must have in common."""
    labels = {
        None: (),
        Level.ZONE: (node.zone,),
        Level.RACK: (node.zone, node.block, node.rack),
    }[required]
    return labels if all(labels) else node.name


def best(
    fleet: Cluster, nodes: Sequence[Node], asked: Workload, pods: int, required: Level | None
) -> tuple[int, int]:
    """(pods that find room, nodes they lie on at most) in the region with most of both."""
    (pod_set,) = asked.spec.pod_sets
    regions: dict[Hashable, list[int]] = defaultdict(list)
    for node in nodes:
        state = fleet.nodes[node.name]
        room = pods
        if pod_set.gpu.count:
            room = min(room, state.free_count // pod_set.gpu.count)
        if pod_set.cpu_milli:
            room = min(room, state.free_cpu_milli // pod_set.cpu_milli)
        regions[region(node, required)].append(room)
    return max(
        (min(sum(rooms), pods), min(sum(room > 0 for room in rooms), pods))
        for rooms in regions.values()
    )


def any_asked(draw: Random, required: Level | None) -> Workload:
    level = {"required": required} if required else {"preferred": draw.choice((None, Level.RACK))}
    gpu = placing.whole(draw.choice((0, 1, 1, 2)))
    pod_set = placing.pods(gpu, draw.randint(1, 6), cpu_milli=draw.choice((500, 1000)))
    return placing.workload(pod_set, topology=TopologyRequest(**level), spread=Spread.PREFERRED)


@given(st.integers(0, 10**7))
def test_preferred_spread_finds_as_many_nodes_as_there_are(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    fleet = placing.cluster(*nodes)
    for _ in range(draw.randint(0, 3)):
        place(fleet, placing.request(placing.workload(placing.pods(placing.whole(1)))))
    required = draw.choice((None, Level.RACK, Level.ZONE))
    asked = any_asked(draw, required)
    room, most = best(fleet, nodes, asked, asked.pods, required)

    answer = place(fleet, placing.request(asked))

    assert isinstance(answer, Placement) == (room == asked.pods)
    if not isinstance(answer, Placement):
        return
    held = {pod.node for pod in answer.pods}
    assert len(held) == most
    assert len({region(node, required) for node in nodes if node.name in held}) == 1
    if required is None:
        check_growth(fleet, nodes, asked, answer)


def check_growth(
    fleet: Cluster, nodes: Sequence[Node], asked: Workload, answer: Placement
) -> None:
    held = {pod.node for pod in answer.pods}
    (pod_set,) = asked.spec.pod_sets
    larger = replace(pod_set, count=pod_set.count + 4, min_count=1)
    asked = replace(asked, spec=replace(asked.spec, pod_sets=(larger,)))
    more, _ = best(fleet, nodes, asked, 4, None)
    others = [node for node in nodes if node.name not in held]
    fresh = best(fleet, others, asked, 4, None)[1] if others else 0

    added = grow(fleet, placing.request(asked), answer)

    assert (len(added.pods) if added else 0) == more
    if added is not None:
        assert len({pod.node for pod in added.pods} - held) == fresh
