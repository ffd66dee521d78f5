"""How many nodes waiting work needs: pods that a gang still lacks, never those of quota."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shared.core.model.charges import least_amount
from shared.core.model.nouns import (
    GpuRequest,
    Level,
    PodSet,
    Spread,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.needed_nodes import (
    GangNeed,
    NodeLack,
    OpenNode,
    WaitingGang,
    gang_need,
    lack_of,
    within_quota,
)
from shared.core.queueing.nomination import FlavorChoice, FlavorKind
from shared.core.quota.document import EVERYTHING, FlavorLimits, QuotaDocument
from shared.core.quota.tree import QuotaTree


def spec(*pod_sets: PodSet, **more: Any) -> WorkloadSpec:
    return WorkloadSpec(name="w", kind=WorkloadKind.TRAINING, pod_sets=pod_sets, **more)


def pods(count: int, gpus: int = 8, **more: Any) -> PodSet:
    return PodSet(name=f"s{count}-{gpus}", count=count, gpu=GpuRequest(count=gpus), **more)


def shares(count: int, milli: int) -> PodSet:
    return PodSet(name="shares", count=count, gpu=GpuRequest(milli=milli, memory_mib=1))


def need(*pod_sets: PodSet, **more: Any) -> GangNeed:
    return gang_need(spec(*pod_sets, **more))


def room(name: str, free: int, gpus: int = 8, **domains: str) -> OpenNode:
    levels = {Level(key.replace("_", "-")): path for key, path in domains.items()}
    return OpenNode(name=name, free=free, gpus=gpus, domains=levels)


def lack(*gangs: GangNeed, rooms: Any = (), node_gpus: int = 8, warm: int = 0) -> tuple[int, ...]:
    found = lack_of(Counter(gangs), rooms, node_gpus=node_gpus, warm_nodes=warm)
    return found.nodes, found.warm_nodes, found.pods


IN_A_RACK = TopologyRequest(required=Level.RACK)


@pytest.mark.parametrize(
    ("gangs", "rooms", "expected"),
    [
        pytest.param([need(pods(4))], [], (4, 0, 4), id="nothing is free"),
        pytest.param([need(pods(4))], [("a", 8), ("b", 8), ("c", 7)], (2, 0, 2), id="in part"),
        pytest.param([need(pods(4, min_count=1))], [("a", 8)], (0, 0, 0), id="its least fits"),
        pytest.param([need(pods(2, 4))], [("a", 4)], (1, 0, 1), id="half a node"),
        pytest.param(
            [need(pods(1, 4)), need(pods(1, 4)), need(pods(1, 2))], [], (2, 0, 3), id="share nodes"
        ),
        pytest.param([need(pods(3)), need(pods(3))], [("a", 8)], (5, 0, 5), id="one room, twice"),
        pytest.param([need(pods(1, 16))], [], (0, 0, 0), id="no node is that large"),
        pytest.param([need(pods(1, 0))], [], (0, 0, 0), id="no GPU"),
        pytest.param(
            [need(pods(3, 1), spread=Spread.REQUIRED)], [("a", 8)], (2, 0, 2), id="apart"
        ),
        pytest.param(
            [need(shares(3, 500), spread=Spread.REQUIRED)],
            [("a", 8)],
            (2, 0, 2),
            id="shares apart",
        ),
        pytest.param([need(shares(17, 500))], [], (2, 0, 17), id="two share a GPU"),
        pytest.param([need(shares(3, 400))] * 2, [("a", 3)], (0, 0, 0), id="the rest of a GPU"),
        pytest.param([need(shares(4, 250))] * 2, [("a", 1)], (1, 0, 4), id="full GPUs"),
        pytest.param([need(pods(1), shares(1, 500))], [("a", 8)], (1, 0, 1), id="a set each"),
        pytest.param(
            [need(PodSet(gpu=GpuRequest(mig_profile="4g.40gb", mig_count=3)))],
            [("a", 1)],
            (1, 0, 1),
            id="instances of two GPUs on one node",
        ),
    ],
)
def test_only_pods_without_room_need_nodes(gangs, rooms, expected):
    assert lack(*gangs, rooms=[room(*one) for one in rooms]) == expected


@pytest.mark.parametrize(
    ("domains", "expected"),
    [
        pytest.param(["r1", "r1", "r2", "r2"], (1, 0, 1), id="two in a rack"),
        pytest.param(["r1", "r2", "r2", "r2"], (0, 0, 0), id="all in a rack"),
        pytest.param(["", "", "", ""], (2, 0, 2), id="a node without a rack is alone"),
        pytest.param([], (3, 0, 3), id="no node at all"),
    ],
)
def test_room_too_far_apart_is_no_room(domains, expected):
    rooms = [room(f"n{at}", 8, rack=rack) for at, rack in enumerate(domains)]
    assert lack(need(pods(3), topology=IN_A_RACK), rooms=rooms) == expected


def test_what_must_lie_in_one_node_is_one_pod():
    gang = need(pods(2, 3), shares(1, 500), topology=TopologyRequest(required=Level.NODE))

    assert lack(gang, rooms=[room("a", 6), room("b", 6)]) == (1, 0, 1)
    assert lack(gang, rooms=[room("a", 7)]) == (0, 0, 0)
    assert need(pods(1, 0), topology=TopologyRequest(required=Level.NODE)) == GangNeed()


def test_beyond_so_many_looks_pods_count_as_if_they_might_lie_anywhere():
    gangs = {need(pods(3), topology=IN_A_RACK): 2}

    def lacking(looks_max: int) -> int:
        rooms = [room(f"n{at}", 8, rack=f"r{at}") for at in range(4)]
        return lack_of(gangs, rooms, node_gpus=8, warm_nodes=0, looks_max=looks_max).nodes

    assert (lacking(100), lacking(0)) == (4, 2)


def test_the_buffer_wants_empty_nodes_beside_what_work_takes():
    rooms = [room("a", 8), room("b", 8), room("c", 4)]

    assert lack(rooms=rooms, warm=2) == (0, 0, 0)
    assert lack(need(pods(1, 1)), rooms=rooms, warm=2) == (0, 0, 0), "it takes half a node first"
    assert lack(need(pods(1)), rooms=[room("a", 8), room("b", 8)], warm=2) == (0, 1, 0)


def test_where_no_node_was_seen_it_has_what_the_largest_pod_asks_for():
    assert lack(need(pods(2, 4)), need(pods(2, 1)), node_gpus=0) == (3, 0, 4)
    assert lack(node_gpus=0, warm=1) == (0, 1, 0)


def tree(*, nominal: dict[str, int], borrowed: int | None = None) -> QuotaTree:
    """Queues of two teams below one cohort, each with so many GPUs in each flavor."""
    found = QuotaTree()
    limit = None if borrowed is None else (borrowed * 1_000, *EVERYTHING[1:])
    for name in ("vision", "speech"):
        limits = {
            flavor: FlavorLimits(nominal=(gpus * 1_000, *EVERYTHING[1:]), borrowing_limit=limit)
            for flavor, gpus in nominal.items()
        }
        document = QuotaDocument(
            name=name, kind="queue", version=1, parent="all", team=name, flavors=limits
        )
        assert not found.apply(document)[1]
    assert not found.apply(QuotaDocument(name="all", kind="cohort", version=1))[1]
    return found


def waiting(queue: str, gpus: int, **more: Any) -> WaitingGang:
    one = spec(pods(gpus // 8))
    return WaitingGang(queue=queue, need=gang_need(one), request=least_amount(one), **more)


def counted(tree_of: QuotaTree, *gangs: WaitingGang, **kinds: FlavorKind) -> dict[str, int]:
    found = within_quota(((one, 1) for one in gangs), tree_of, kinds)
    return {flavor: sum(needs.values()) for flavor, needs in found.items()}


def test_two_that_fit_their_quota_only_one_by_one_need_the_nodes_of_one():
    alone = tree(nominal={"h100": 16}, borrowed=0)

    assert counted(alone, waiting("vision", 16), waiting("vision", 16)) == {"h100": 1}
    assert counted(alone, waiting("vision", 8), waiting("speech", 16)) == {"h100": 1}, "8 are held"


def test_what_is_borrowed_of_all_counts_up_the_tree():
    common = tree(nominal={"h100": 16})
    common.charge("speech", "h100", (8_000, 0, 0))

    assert counted(common, *[waiting("vision", 8)] * 9) == {"h100": 3}


def test_a_gang_counts_in_the_first_flavor_that_it_may_use_and_quota_has():
    both = tree(nominal={"a100": 8, "h100": 16}, borrowed=0)
    kinds = {"a100": FlavorKind(products=("A100",)), "h100": FlavorKind(products=("H100",))}
    only = FlavorChoice(products=("H100",))

    assert counted(both, *[waiting("vision", 8)] * 5, **kinds) == {"a100": 1, "h100": 2}
    assert counted(both, waiting("speech", 8, choice=only), **kinds) == {"h100": 1}


def test_a_queue_that_is_not_known_and_work_without_gpus_count_nothing():
    one = tree(nominal={"h100": 16})
    one.node("late")

    nothing = WaitingGang(queue="vision", need=GangNeed())
    assert counted(one, waiting("other", 8), waiting("late", 8), nothing) == {}
    assert lack_of({}, [], node_gpus=8, warm_nodes=0) == NodeLack()
