"""Slices, leaders and elastic gangs: whole or absent, and found whenever counting finds room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.cluster.topology import LEVELS
from shared.core.model.nouns import (
    Level,
    Node,
    Placement,
    PodRole,
    PodSet,
    Slice,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import grow, place
from shared.core.scoring.cluster import Cluster
from tests.support import placing

WIDER = (Level.NVLINK_DOMAIN, Level.RACK, Level.BLOCK, Level.ZONE)


def any_fleet(draw: Random) -> tuple[Node, ...]:
    labelled = draw.random() < 0.6
    return tuple(
        placing.node(
            f"n{number}",
            gpus=draw.randint(1, 4),
            zone=draw.choice(("z1", "z2", "z1") if labelled else ("", "z1")),
            block=draw.choice(("b1", "b2") if labelled else ("", "b1")),
            rack=draw.choice(("r1", "r2") if labelled else ("", "r1")),
            nvlink_domain=draw.choice(("", "v1", "v2")),
        )
        for number in range(draw.randint(1, 9))
    )


def any_slices(draw: Random) -> tuple[Slice, ...]:
    levels = sorted(draw.sample(LEVELS[:4], draw.choice((1, 1, 2, 3))), key=LEVELS.index)
    pods, slices = 1, []
    for level in levels:
        pods *= draw.choice((1, 2, 2, 3))
        slices.append(Slice(pods=pods, level=level))
    return tuple(reversed(slices))


def any_set(draw: Random, *, elastic: bool) -> PodSet:
    slices = any_slices(draw) if draw.random() < 0.8 else ()
    unit = slices[0].pods if slices else 1
    units = draw.randint(1, max(1, 9 // unit))
    least = draw.randint(1, units) if elastic else units
    gpus = draw.choice((1, 1, 2))
    return replace(
        placing.pods(placing.whole(gpus), units * unit), min_count=least * unit, slices=slices
    )


def part_of(node: Node, level: Level) -> Hashable:
    """What holds the node at `level`, by its labels alone."""
    path = (node.zone, node.block, node.rack, node.nvlink_domain)
    for depth in range(LEVELS.index(level), 0, -1):
        wide = path[: 5 - depth]
        if wide[-1]:
            return wide
    return node.name


def capacity(room: dict[Node, int], nodes: Iterable[Node], slices: Sequence[Slice]) -> int:
    """Pods in whole slices that `nodes` can hold, counted from the labels."""
    if not slices:
        return sum(room[node] for node in nodes)
    parts: dict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        parts[part_of(node, slices[0].level)].append(node)
    held = (capacity(room, part, slices[1:]) for part in parts.values())
    return sum(pods // slices[0].pods * slices[0].pods for pods in held)


def room_now(fleet: Cluster, nodes: Sequence[Node], gpus: int) -> dict[Node, int]:
    return {node: fleet.nodes[node.name].free_count // gpus for node in nodes}


def best_capacity(
    fleet: Cluster, nodes: Sequence[Node], pod_set: PodSet, required: Level | None
) -> int:
    room = room_now(fleet, nodes, pod_set.gpu.count)
    if required is None:
        return capacity(room, nodes, pod_set.slices)
    regions: dict[Hashable, list[Node]] = defaultdict(list)
    for node in nodes:
        regions[part_of(node, required)].append(node)
    return max(capacity(room, region, pod_set.slices) for region in regions.values())


def check_slices(nodes: Sequence[Node], pod_set: PodSet, placement: Placement) -> None:
    by_name = {node.name: node for node in nodes}
    held = [by_name[pod.node] for pod in placement.pods]
    assert [pod.rank for pod in placement.pods] == list(range(len(held)))
    for each in pod_set.slices:
        for at in range(0, len(held), each.pods):
            run = held[at : at + each.pods]
            assert len({part_of(node, each.level) for node in run}) == 1, (each, held)


def disturb(fleet: Cluster, draw: Random) -> None:
    for _ in range(draw.randint(0, 4)):
        asked = placing.workload(placing.pods(placing.whole(draw.choice((1, 2)))))
        place(fleet, placing.request(asked))


@given(st.integers(0, 10**7))
def test_slices_are_whole_and_found_whenever_there_is_room(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    fleet = placing.cluster(*nodes, seed=seed % 7)
    for _ in range(2):  # the second time the index of the first follows what changed
        disturb(fleet, draw)
        pod_set = any_set(draw, elastic=False)
        required = draw.choice((None, None, Level.RACK, Level.BLOCK, Level.ZONE))
        asked = placing.workload(pod_set, topology=TopologyRequest(required=required))
        room = best_capacity(fleet, nodes, pod_set, required)
        before = fleet.digest()

        answer = place(fleet, placing.request(asked))

        assert isinstance(answer, Placement) == (room >= pod_set.count), (answer, room)
        if isinstance(answer, Placement):
            assert len(answer.pods) == pod_set.count
            check_slices(nodes, pod_set, answer)
        else:
            assert fleet.digest() == before


@given(st.integers(0, 10**7))
def test_an_elastic_gang_gets_the_most_that_fits_and_grows_by_what_comes_free(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    fleet = placing.cluster(*nodes)
    holders = [placing.workload(placing.pods(placing.whole(1))) for _ in range(draw.randint(0, 9))]
    held = [(each, place(fleet, placing.request(each))) for each in holders]
    pod_set = any_set(draw, elastic=True)
    asked = placing.workload(pod_set)
    unit = pod_set.slices[0].pods if pod_set.slices else 1
    most = min(best_capacity(fleet, nodes, pod_set, None) // unit * unit, pod_set.count)

    answer = place(fleet, placing.request(asked))

    if most < (pod_set.min_count or 0):
        assert not isinstance(answer, Placement)
        return
    assert isinstance(answer, Placement), answer
    assert len(answer.pods) == most
    assert answer.charge.gpu_milli == most * pod_set.gpu.count * 1000
    check_slices(nodes, pod_set, answer)
    for each, placement in held:
        if isinstance(placement, Placement) and draw.random() < 0.7:
            fleet.release("red", placement.pods, each.spec.pod_sets)
    check_growth(fleet, nodes, asked, answer)


def check_growth(
    fleet: Cluster, nodes: Sequence[Node], asked: Workload, answer: Placement
) -> None:
    (pod_set,) = asked.spec.pod_sets
    unit = pod_set.slices[0].pods if pod_set.slices else 1
    missing = pod_set.count - len(answer.pods)
    more = min(best_capacity(fleet, nodes, pod_set, None) // unit * unit, missing)
    before = fleet.digest()

    added = grow(fleet, placing.request(asked), answer)

    assert (0 if added is None else len(added.pods)) == more
    if added is not None:
        assert [pod.rank for pod in added.pods] == list(
            range(len(answer.pods), len(answer.pods) + more)
        )
        renumbered = [replace(pod, rank=rank) for rank, pod in enumerate(added.pods)]
        check_slices(nodes, pod_set, replace(added, pods=tuple(renumbered)))
        fleet.release("red", added.pods, asked.spec.pod_sets)
    assert fleet.digest() == before


@given(st.integers(0, 10**7))
def test_a_leader_lies_where_its_first_workers_are(seed: int) -> None:
    draw = Random(seed)
    nodes = any_fleet(draw)
    fleet = placing.cluster(*nodes)
    disturb(fleet, draw)
    leader = replace(
        placing.pods(placing.whole(draw.choice((0, 1))), name="leader"), role=PodRole.LEADER
    )
    workers = replace(any_set(draw, elastic=False), name="workers")
    required = draw.choice((None, Level.RACK, Level.ZONE))
    sets = (leader, workers) if draw.random() < 0.5 else (workers, leader)
    asked = placing.workload(*sets, topology=TopologyRequest(required=required))
    before = fleet.digest()

    answer = place(fleet, placing.request(asked))

    if not isinstance(answer, Placement):
        assert fleet.digest() == before
        return
    by_name = {node.name: node for node in nodes}
    lead = next(by_name[pod.node] for pod in answer.pods if pod.pod_set == "leader")
    held = [by_name[pod.node] for pod in answer.pods if pod.pod_set == "workers"]
    distances = [distance(lead, node) for node in held]
    assert distances[0] == min(distances)
    if required is not None:
        assert len({part_of(node, required) for node in (lead, *held)}) == 1


def distance(one: Node, other: Node) -> int:
    """0 on one node, else the tightest level that holds both."""
    if one is other:
        return 0
    shared = (level for level in WIDER if part_of(one, level) == part_of(other, level))
    return LEVELS.index(next(shared)) if (one.zone and one.zone == other.zone) else 9
