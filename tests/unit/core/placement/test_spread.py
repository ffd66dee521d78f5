"""Pods that would rather be apart: as many different nodes as there are for them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from shared.core.model.nouns import (
    GpuChoice,
    Level,
    Placement,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import grow
from tests.support.placing import (
    cluster,
    node,
    placed,
    pods,
    racks,
    racks_of,
    request,
    where,
    whole,
    workload,
)

IN_RACK = TopologyRequest(required=Level.RACK)
IN_ZONE = TopologyRequest(required=Level.ZONE)
NEAR = TopologyRequest(preferred=Level.ZONE)


def apart(*sets: PodSet, **rest: object) -> Workload:
    return workload(*sets, spread=Spread.PREFERRED, **rest)  # type: ignore[arg-type]


def shares_of_nodes(placement: Placement) -> list[int]:
    """How many pods each node has, the most first."""
    return sorted(Counter(where(placement)).values(), reverse=True)


@pytest.mark.parametrize("topology", [TopologyRequest(), NEAR, IN_ZONE])
def test_no_two_share_a_node_while_another_is_left(topology: TopologyRequest) -> None:
    answer = placed(cluster(*racks(3)), apart(pods(whole(1), 4), topology=topology))

    assert shares_of_nodes(answer) == [2, 1, 1]


def test_every_node_gets_one_more_before_any_gets_two() -> None:
    fleet = cluster(*racks(2, 1))

    assert shares_of_nodes(placed(fleet, apart(pods(whole(1), 8), topology=IN_ZONE))) == [3, 3, 2]


def test_very_many_are_even_up_to_a_bound_and_all_find_room() -> None:
    answer = placed(cluster(*racks(2, 1)), apart(pods(count=300), topology=IN_ZONE))

    assert sum(shares_of_nodes(answer)) == 300
    assert min(shares_of_nodes(answer)) == 8


def test_the_rack_with_most_nodes_is_taken_where_none_has_enough() -> None:
    tight = [node(f"t{at}", gpus=4, rack=f"t{at // 2}", zone="z") for at in range(140)]
    wide = [node(f"w{at}", rack="w", zone="z") for at in range(3)]

    answer = placed(cluster(*tight, *wide), apart(pods(whole(1), 4), topology=IN_RACK))

    assert sorted(set(where(answer))) == ["w0", "w1", "w2"]


def test_other_products_are_no_reason_to_share_a_node() -> None:
    fleet = cluster(node("a", product="A", rack="r"), node("b", product="B", rack="r"))
    choice = GpuChoice(preferred_products={"A": 1})

    answer = placed(fleet, apart(pods(whole(1), 3), topology=IN_RACK, choice=choice))

    assert len(set(where(answer))) == 2


def test_a_gang_that_fits_only_packed_is_packed() -> None:
    """The small pods one by one would leave no node with the CPU that the large one needs."""
    fleet = cluster(
        node("large", cpu_milli=64_000, rack="r"), node("small", cpu_milli=20_000, rack="r")
    )
    small = pods(whole(1), 2, name="small", cpu_milli=10_000)
    large = pods(name="large", cpu_milli=60_000)

    answer = placed(fleet, apart(small, large, topology=IN_RACK))

    assert where(answer) == ["small", "small", "large"]


def test_several_sets_lie_on_as_many_nodes_as_there_are() -> None:
    alone = [node(f"a{at}", gpus=8, rack=f"a{at}") for at in range(3)]
    together = [node(f"b{at}", gpus=8, rack="b") for at in range(2)]
    sets = [pods(whole(count), name=f"s{count}") for count in (1, 2, 3)]

    answer = placed(cluster(*alone, *together), apart(*sets, topology=IN_RACK))

    assert sorted(set(where(answer))) == ["b0", "b1"]


def test_slices_apart_stay_whole() -> None:
    in_racks = (Slice(pods=2, level=Level.RACK),)
    asked = apart(replace(pods(whole(1), 10), slices=in_racks), topology=IN_ZONE)

    answer = placed(cluster(*racks(3, 2)), asked)

    held = racks_of(answer)
    assert all(one == other for one, other in list(pairwise(held))[::2])
    assert len(set(where(answer))) >= 4


def test_a_leader_shares_a_node_only_where_no_other_is_left() -> None:
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    loose = [node(f"n{at}") for at in range(3)]
    for workers, shares in ((2, [1, 1, 1]), (3, [2, 1, 1])):
        asked = apart(leader, pods(whole(1), workers, name="w"))
        assert shares_of_nodes(placed(cluster(*loose), asked)) == shares


def growing(count: int, topology: TopologyRequest, fleet_nodes: int = 3) -> Counter[str]:
    """The nodes of two pods that grow to `count`, on a fleet in racks of two."""
    fleet = cluster(*racks(2, fleet_nodes - 2, racks_of_block=1))
    first = apart(replace(pods(whole(1), 2), min_count=1), topology=topology)
    running = placed(fleet, first)
    asked = apart(replace(pods(whole(1), count), min_count=1), topology=topology)
    added = grow(fleet, request(asked), running)
    assert added is not None
    assert len(added.pods) == count - 2
    return Counter(where(running)) + Counter(where(added))


def test_what_is_added_goes_to_nodes_without_a_pod_first() -> None:
    assert sorted(growing(4, TopologyRequest()).values()) == [1, 1, 2]
    assert sorted(growing(6, IN_ZONE, 4).values()) == [1, 1, 2, 2]
    assert len(growing(4, IN_RACK)) == 2


def test_a_level_that_is_only_preferred_is_left_before_two_share_a_node() -> None:
    fleet = cluster(*(node(f"n{at}", zone=f"z{at // 2}") for at in range(4)))

    assert shares_of_nodes(placed(fleet, apart(pods(whole(1), 4), topology=NEAR))) == [1] * 4
    assert len(growing(6, TopologyRequest(preferred=Level.RACK), 6)) == 6
