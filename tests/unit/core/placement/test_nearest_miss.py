"""The nearest miss is told as it is: what the best node without room has, and what it lacks."""

from __future__ import annotations

import pytest

from shared.core.model.nouns import Level, Node, TopologyRequest
from shared.core.placement.explain.miss import WALKED_MAX
from tests.support.placing import cluster, node, pods, refused, share, whole, workload

IN_RACK = TopologyRequest(required=Level.RACK)
ALIGNED = TopologyRequest(numa_aligned=True)


def in_rack(name: str, rack: str = "r", **rest: object) -> Node:
    return node(name, rack=rack, zone=f"of {rack}", **rest)  # type: ignore[arg-type]


def next_node(message: str) -> str:
    return message.partition("; the next node there ")[2]


@pytest.mark.parametrize(
    ("third", "told"),
    [
        ({"cpu_milli": 1000}, "has 8 GPUs free but 1000 of 2000 milli-CPU."),
        ({"memory_mib": 9}, "has 8 GPUs free but 9 of 10 MiB of memory."),
        (
            {"memory_mib": 9, "unhealthy": (1,), "cpu_milli": 0},
            "has 7 GPUs free and 0 of 2000 milli-CPU and 9 of 10 MiB of memory.",
        ),
        ({"cordoned": True}, "is cordoned, not ready or unhealthy."),
    ],
)
def test_the_next_node_has_what_it_has_and_lacks_what_it_lacks(
    third: dict[str, object], told: str
) -> None:
    short = in_rack("c", **third)  # type: ignore[arg-type]
    fleet = cluster(in_rack("a"), in_rack("b"), short, in_rack("d", "other"))
    asked = workload(pods(whole(8), 3, cpu_milli=2000, memory_mib=10), topology=IN_RACK)

    refusal = refused(fleet, asked)

    assert "the best, rack r, has room for 2" in refusal.message
    assert next_node(refusal.message).startswith(told)
    free = 0 if "cordoned" in third else 7 if "unhealthy" in third else 8
    assert refusal.evidence["best_domain_next_node_gpus_free"] == free
    assert ("best_domain_next_node_cpu_milli_free" in refusal.evidence) == ("cpu_milli" in third)


def test_of_nodes_without_room_the_one_with_most_gpus_is_next_and_of_equals_with_most_cpu() -> (
    None
):
    fleet = cluster(
        in_rack("a"),
        in_rack("b", unhealthy=(0,)),
        in_rack("c", cpu_milli=1000),
        in_rack("d", cpu_milli=1500),
        in_rack("e", "other"),
    )

    refusal = refused(fleet, workload(pods(whole(8), 2, cpu_milli=2000), topology=IN_RACK))

    assert next_node(refusal.message) == "has 8 GPUs free but 1500 of 2000 milli-CPU."


def test_a_node_without_gpus_enough_in_one_numa_domain_says_how_many_it_has_there() -> None:
    few = (in_rack("a", gpus=4), in_rack("b", gpus=4), in_rack("c", gpus_per_numa=2))
    fleet = cluster(*few, in_rack("d", "other", gpus=4))
    together = TopologyRequest(required=Level.RACK, numa_aligned=True)

    refusal = refused(fleet, workload(pods(whole(4), 3), topology=together))

    assert next_node(refusal.message) == "has 8 GPUs free, 2 in one NUMA domain."


def test_pods_without_gpus_hear_of_cpu_alone() -> None:
    fleet = cluster(in_rack("a"), in_rack("b", cpu_milli=1000), in_rack("c", "other"))

    refusal = refused(fleet, workload(pods(count=2, cpu_milli=60_000), topology=IN_RACK))

    assert next_node(refusal.message) == "has 1000 of 60000 milli-CPU."


def test_where_every_node_has_room_no_next_one_is_made_up() -> None:
    fleet = cluster(in_rack("a"), in_rack("b"), in_rack("c", "other", gpus=8))

    refusal = refused(fleet, workload(pods(whole(8), 3), topology=IN_RACK))

    assert refusal.message.endswith("has room for 2; no other node there matches.")
    assert "best_domain_next_node_gpus_free" not in refusal.evidence


def test_shares_have_no_next_node() -> None:
    fleet = cluster(in_rack("a", gpus=1), in_rack("b", "other", gpus=1))

    refusal = refused(fleet, workload(pods(share(800), 2), topology=IN_RACK))

    assert refusal.message.endswith("has room for 1.")


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ({}, ""),
        ({"cpu_milli": 1000}, "has 8 GPUs free but 1000 of 2000 milli-CPU."),
        ({"unhealthy": range(1, 8)}, "has 1 GPU free."),
    ],
)
def test_in_a_wide_domain_the_shelves_tell_the_next_node(
    last: dict[str, object], told: str
) -> None:
    many = [node(f"n{at}", zone="z") for at in range(WALKED_MAX)]
    fleet = cluster(*many, node("last", zone="z", **last), node("other", zone="other", gpus=9))  # type: ignore[arg-type]
    pods_fit = WALKED_MAX + (not last)
    asked = workload(
        pods(whole(8), pods_fit + 1, cpu_milli=2000), topology=TopologyRequest(required=Level.ZONE)
    )

    refusal = refused(fleet, asked)

    assert refusal.evidence["best_domain_pods_fit"] == pods_fit
    assert next_node(refusal.message) == told
    assert told or refusal.message.endswith(f"has room for {pods_fit}.")


def test_gpus_in_one_numa_domain_without_the_cpu_beside_them_are_not_called_too_few() -> None:
    fleet = cluster(node("a", cpu_milli=1000), node("b", gpus_per_numa=2))

    refusal = refused(fleet, workload(pods(whole(4), cpu_milli=2000), topology=ALIGNED))

    assert refusal.message == (
        "One node must have 4 free GPUs in one NUMA domain and 2000 milli-CPU; 2 nodes of 2 have "
        "4 GPUs free, 1 in one NUMA domain, but the nearest of them, a, has 1000 of 2000 "
        "milli-CPU."
    )
    assert refusal.evidence["best_numa_domain_gpus_free"] == 4
    assert refusal.evidence["nodes_with_numa_domain_free"] == 1


def test_of_many_nodes_it_is_said_how_many_were_looked_at() -> None:
    fleet = cluster(*(node(f"n{at}", gpus_per_numa=2) for at in range(70)))

    refusal = refused(fleet, workload(pods(whole(4)), topology=ALIGNED))

    assert "but the best of 64 looked at, n" in refusal.message
    assert refusal.message.endswith("has 2 in one NUMA domain.")
