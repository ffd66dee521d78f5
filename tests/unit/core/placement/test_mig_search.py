"""Between nodes, kinds and products, where a pod with MIG instances goes."""

from __future__ import annotations

from shared.core.model.nouns import Node, Placement
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, mig, node, pods, request, workload


def a_small_board(name: str) -> Node:
    """An A100-40, on which 1g.10gb takes two slices."""
    return node(name, gpus=1, mig=(0,), product="A100-40GB", gpu_memory_mib=40_960)


def a_large_board(name: str, cpu_milli: int = 96_000) -> Node:
    return node(name, gpus=1, mig=(0,), cpu_milli=cpu_milli)


def where(fleet: Cluster, profile: str = "1g.10gb", cpu_milli: int = 0) -> str:
    answer = place(fleet, request(workload(pods(mig(profile), cpu_milli=cpu_milli))))
    assert isinstance(answer, Placement), answer
    return answer.pods[0].node


def test_of_two_products_that_with_more_room_gives_it() -> None:
    small = [a_small_board(f"s{number}") for number in range(4)]
    large = [a_large_board(f"l{number}") for number in range(4)]

    assert where(cluster(*small, large[0])).startswith("s")
    assert where(cluster(small[0], *large)).startswith("l")


def test_a_profile_of_one_product_finds_it_among_others() -> None:
    fleet = cluster(a_small_board("s"), a_large_board("l"))

    assert where(fleet, "2g.20gb") == "l"
    assert where(fleet, "2g.10gb") == "s"


def test_when_the_cheapest_gpu_has_no_cpu_beside_it_the_next_is_taken() -> None:
    """The node with the used GPU is of a kind of its own, and full."""
    fleet = cluster(a_large_board("used", 4_000), a_large_board("idle"))
    first = workload(pods(mig("1g.10gb"), cpu_milli=4_000))
    only_used = cluster(a_large_board("used", 4_000))
    answer = place(only_used, request(first))
    assert isinstance(answer, Placement)
    fleet.charge(first.team, answer.pods, first.spec.pod_sets)

    assert where(fleet) == "used"
    assert where(fleet, cpu_milli=1_000) == "idle"


def test_kinds_of_one_product_are_one_pool() -> None:
    """The used GPU is found whatever kind its node is of."""
    fleet = cluster(*(a_large_board(f"n{number}", 96_000 + number) for number in range(4)))
    first = where(fleet)

    assert [where(fleet) for _ in range(6)] == [first] * 6
