"""Every refusal says what is missing, by how much, and what would help."""

from __future__ import annotations

import pytest

from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import (
    GpuChoice,
    Level,
    Node,
    Placement,
    PodSet,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.units import UNBOUNDED, Resources
from shared.core.model.wording import amount, count, has, listing
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, mig, node, pods, request, share, whole, workload


def why(fleet: Cluster, asked: Workload, *flavors: str) -> Refusal:
    answer = place(fleet, request(asked, *flavors))
    assert isinstance(answer, Refusal), answer
    return answer


def test_quota_is_named_only_if_it_is_all_that_hinders() -> None:
    fleet = cluster(node("a"))
    short = {"a100": Resources(gpu_milli=1500, cpu_milli=0, memory_mib=10)}

    def ask(pod_set: PodSet) -> Refusal:
        answer = place(
            fleet,
            PlacementRequest(workload=workload(pod_set), flavors=("a100",), headroom=short),
        )
        assert isinstance(answer, Refusal)
        return answer

    refusal = ask(pods(whole(2), cpu_milli=500, memory_mib=1))
    assert refusal.reason is Reason.WAITING_FOR_QUOTA
    assert refusal.message == (
        "There is room in flavor a100, but the workload needs 2000 milli-GPU, quota has 1500 "
        "milli-GPU free and needs 500 milli-CPU, quota has 0 milli-CPU free."
    )
    assert refusal.evidence["needed_gpu_milli"] == 2000
    assert ask(pods(whole(9))).reason is Reason.NO_CAPACITY


def test_no_permitted_flavor_is_a_matter_of_quota() -> None:
    asked = PlacementRequest(workload=workload(pods()), flavors=(), headroom={"a100": UNBOUNDED})

    answer = place(cluster(node("a")), asked)

    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.WAITING_FOR_QUOTA


def test_filters_are_counted_each_node_once() -> None:
    fleet = cluster(
        node("h", flavor="h100"),
        node("c", gpus=0, product=""),
        node("old", driver="470", product="A100"),
        node("new", driver="550", product="A100"),
        node("t", taints=("x:NoSchedule",)),
    )
    choice = GpuChoice(min_driver="560")

    refusal = why(fleet, workload(pods(whole(1)), choice=choice))

    assert refusal.reason is Reason.NO_MATCHING_NODE
    assert refusal.message == (
        "None of 5 nodes matches 1 free GPU: 1 of another flavor, 1 tainted, 1 without a GPU "
        "and 2 with too old a driver (needs 560, the newest is 550)."
    )
    assert refusal.next_step == "Accept an older driver, or ask an operator to upgrade."
    assert refusal.evidence["nodes_excluded_driver"] == 2


@pytest.mark.parametrize(
    ("choice", "gpu", "words"),
    [
        (GpuChoice(node_pool="p"), whole(1), "in another pool"),
        (GpuChoice(products=("X",)), whole(1), "of another product"),
        (
            GpuChoice(min_memory_mib=99_999),
            whole(1),
            "(needs 99999 MiB, the most is 81920)",
        ),
        (GpuChoice(cuda="13"), whole(1), "the CUDA version (needs 13, the newest is not known)"),
        (GpuChoice(min_driver="1"), whole(1), "a driver (needs 1, the newest is not known)"),
        (GpuChoice(), mig("1g.5gb"), "without the MIG profile"),
    ],
)
def test_each_filter_has_its_words(choice: GpuChoice, gpu: object, words: str) -> None:
    asked = workload(pods(gpu), choice=choice)  # type: ignore[arg-type]

    assert words in why(cluster(node("a")), asked).message


@pytest.mark.parametrize(
    ("taint", "step"),
    [("nvidia.com/gpu=present:NoSchedule", "Ask for a GPU"), ("x=y:NoSchedule", "Name the pool")],
)
def test_work_without_a_gpu_is_not_sent_to_a_pool_of_nodes_for_gpu_work(
    taint: str, step: str
) -> None:
    fleet = cluster(node("a", taints=(taint,)))

    assert why(fleet, workload(pods(cpu_milli=1000))).next_step.startswith(step)


def test_the_only_matching_node_is_spoken_of_as_one() -> None:
    fleet = cluster(node("a", ready=False))

    assert why(fleet, workload(pods(whole(1)))).message.startswith("The only matching node is out")


def test_an_empty_fleet_is_told_as_such() -> None:
    refusal = why(Cluster(), workload(pods()))

    assert refusal.message == "None of 0 nodes matches nothing but a place."
    assert refusal.next_step == "Wait for nodes to register."


@pytest.mark.parametrize(
    "fleet",
    [
        [node("a", cordoned=True), node("b", ready=False)],
        [node("a", gpus=1, unhealthy=(0,))],
    ],
)
def test_nodes_that_are_out_are_told_apart_from_full_ones(fleet: list[Node]) -> None:
    refusal = why(cluster(*fleet), workload(pods(whole(1))))

    assert refusal.reason is Reason.NODES_UNHEALTHY
    assert refusal.evidence["nodes_matching"] == len(fleet)


def test_too_few_free_gpus_on_every_node() -> None:
    refusal = why(cluster(node("a", gpus=3), node("b", gpus=2)), workload(pods(whole(4))))

    assert refusal.reason is Reason.NO_CAPACITY
    assert refusal.message == (
        "One node must have 4 free GPUs; the best of 2, a, has 3 free (5 in all)."
    )


def test_empty_gpus_in_mig_mode_are_told_of_to_those_who_cannot_use_them() -> None:
    """Of three in MIG mode one has an instance."""
    fleet = cluster(node("a", gpus=3), node("m", gpus=3, mig=(0, 1, 2)))
    place(fleet, request(workload(pods(mig("3g.40gb")))))

    wide = why(fleet, workload(pods(whole(4))))
    gang = why(fleet, workload(pods(whole(3), 2)))
    shares = why(fleet, workload(pods(share(500, 200_000))))

    more = "; 2 more with nothing on them, but in MIG mode"
    assert wide.message.endswith(f"has 3 free (3 in all{more}).")
    assert f"(3 whole GPUs free in all{more})" in gang.message
    assert shares.message.endswith(f"has 81920 of 200000 MiB of GPU memory{more}.")
    assert {2} == {one.evidence["gpus_empty_in_mig_mode"] for one in (wide, gang, shares)}


def test_gpus_without_the_cpu_or_memory_beside_them() -> None:
    fleet = cluster(node("a", cpu_milli=100), node("b", memory_mib=100), node("c", gpus=1))

    refusal = why(fleet, workload(pods(whole(2), cpu_milli=1000, memory_mib=1000)))

    assert refusal.message.endswith(
        "of 3 nodes 2 have the GPUs, 1 has the CPU too, but none of these the memory: the best, "
        "b, has 100 of 1000 MiB of memory."
    )
    assert refusal.evidence["nodes_short_of_cpu"] == 1
    assert refusal.evidence["best_node_memory_mib_free"] == 100


def test_of_nodes_with_too_little_cpu_the_best_is_told() -> None:
    fleet = cluster(node("a", cpu_milli=31_000), node("b", cpu_milli=20_000))

    refusal = why(fleet, workload(pods(whole(8), cpu_milli=32_000)))

    assert refusal.message == (
        "One node must have 8 free GPUs and 32000 milli-CPU; of 2 nodes 2 have the GPUs, but none "
        "has the CPU: the best, a, has 31000 of 32000 milli-CPU."
    )
    assert refusal.evidence["best_node_cpu_milli_free"] == 31_000


def test_pods_without_a_gpu_lack_cpu_or_memory() -> None:
    refusal = why(cluster(node("a")), workload(pods(cpu_milli=97_000)))

    assert refusal.message == (
        "One node must have 97000 milli-CPU; of 1 node none has the CPU: the best, a, has 96000 "
        "of 97000 milli-CPU."
    )


def test_pods_without_a_gpu_that_find_the_cpu_lack_memory() -> None:
    fleet = cluster(node("a", memory_mib=10), node("b", memory_mib=20, cpu_milli=1000))

    refusal = why(fleet, workload(pods(memory_mib=30, cpu_milli=500)))

    assert refusal.message.endswith(
        "of 2 nodes 2 have the CPU, but none of these the memory: the best, b, has 20 of 30 MiB "
        "of memory."
    )


def test_nodes_that_are_out_are_told_beside_the_room_on_the_others() -> None:
    fleet = cluster(node("a"), node("b", cordoned=True), node("c", ready=False))

    gang = why(fleet, workload(pods(whole(8), 2)))
    single = why(cluster(node("a"), node("b", ready=False)), workload(pods(whole(9))))

    assert gang.message.endswith(". 2 nodes more are cordoned, not ready or unhealthy.")
    assert single.message.endswith(". 1 node more is cordoned, not ready or unhealthy.")
    assert gang.evidence["nodes_open"] == 1


def test_a_share_without_a_gpu_left_to_open() -> None:
    fleet = cluster(node("a", gpus=1))
    place(fleet, request(workload(pods(share(700)))))

    refusal = why(fleet, workload(pods(share(400, 9))))

    assert refusal.message == (
        "One GPU must have 400 milli of a GPU with 9 MiB; team red shares 1 GPU with at most "
        "300 milli-GPU free, 0 GPUs are free, and no GPU is free to be opened."
    )


def test_a_share_that_lacks_memory_rather_than_gpus() -> None:
    refusal = why(cluster(node("a", gpus=1)), workload(pods(share(400, 99_999))))

    assert refusal.message.endswith(
        "1 GPU is free, and the largest free one has 81920 of 99999 MiB of GPU memory."
    )


def test_a_shared_gpu_that_comes_near_says_what_it_lacks() -> None:
    fleet = cluster(node("a", gpus=1), node("b", gpus=1, cpu_milli=900), node("c", gpus=9))
    for _ in range(2):
        place(fleet, request(workload(pods(share(500, 50_000)))))
    place(fleet, request(workload(pods(whole(9)))))

    refusal = why(fleet, workload(pods(share(400, 32_000), cpu_milli=1000)))

    assert refusal.message.endswith(
        "0 GPUs are free, and the nearest shared one, on a, has 31920 of 32000 MiB of GPU memory."
    )


def test_the_cause_is_told_of_shared_gpus_and_of_free_ones() -> None:
    fleet = cluster(node("a", gpus=1, memory_mib=7), node("b", gpus=1, cpu_milli=900))
    place(fleet, request(workload(pods(share(500, 50_000), cpu_milli=0, memory_mib=1))))
    asked = pods(share(400, 10), cpu_milli=97_000, memory_mib=9)

    refusal = why(fleet, workload(asked))

    assert " and the nearest shared one, on " in refusal.message
    assert " and the best node with a free one, " in refusal.message
    assert " of 97000 milli-CPU" in refusal.message


def test_of_many_shared_gpus_it_is_said_how_many_were_looked_at() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=8) for at in range(9)))
    for _ in range(72):
        place(fleet, request(workload(pods(share(501, 10)))))

    refusal = why(fleet, workload(pods(share(400, 90_000))))

    assert "the nearest shared one of 64 looked at, on n" in refusal.message


def test_no_legal_start_is_told_apart_from_no_slices() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,)))
    for profile in ("1g.10gb", "1g.10gb", "2g.20gb"):
        place(fleet, request(workload(pods(mig(profile)))))

    position = why(fleet, workload(pods(mig("4g.40gb"))))
    assert position.reason is Reason.NO_MIG_POSITION
    assert position.message == (
        "A pod needs 1 x 4g.40gb of a GPU (4 eighths of a GPU); 1 GPU in MIG mode has 4 free "
        "eighths, at most 4 on one, but at no legal start."
    )
    capacity = why(fleet, workload(pods(mig("7g.80gb"))))
    assert capacity.reason is Reason.NO_CAPACITY
    assert capacity.message.startswith("A pod needs 1 x 7g.80gb of a GPU (8 eighths of a GPU)")


def test_a_second_instance_with_media_engines_is_told_that_a_gpu_has_but_one() -> None:
    fleet = cluster(node("a", gpus=3, mig=(0, 1, 2)))
    place(fleet, request(workload(pods(mig("7g.80gb")))))
    for _ in range(2):
        place(fleet, request(workload(pods(mig("1g.10gb+me")))))

    refusal = why(fleet, workload(pods(mig("1g.10gb+me"))))

    assert refusal.reason is Reason.NO_MIG_POSITION
    assert refusal.message == (
        "A pod needs 1 x 1g.10gb+me of a GPU (1 eighth of a GPU); 3 GPUs in MIG mode have 14 free "
        "eighths, at most 7 on one, but no GPU has more than one instance with media engines, and "
        "2 with room for it have one."
    )
    assert refusal.next_step == "Wait for one of those to end, or choose the profile without +me."
    assert refusal.evidence["mig_gpus_with_media_taken"] == 2
    assert "mig_gpus_with_media_taken" not in why(fleet, workload(pods(mig("7g.80gb")))).evidence


def test_legal_positions_that_are_not_together_on_one_node() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0, 1)), node("b", gpus=1, mig=(0,)))

    refusal = why(fleet, workload(pods(mig("7g.80gb", 3))))

    assert refusal.reason is Reason.NO_CAPACITY
    assert "with 3 legal positions" in refusal.message


def test_no_gpu_in_mig_mode() -> None:
    refusal = why(cluster(node("a")), workload(pods(mig("7g.80gb"))))

    assert refusal.reason is Reason.NO_MIG_POSITION
    assert "no healthy GPU that matches is in MIG mode" in refusal.message


def test_a_gang_short_of_some_pods_says_how_many_fit_and_where() -> None:
    fleet = cluster(node("a"), node("b"), node("x", gpus=2, flavor="spot"))

    refusal = why(fleet, workload(pods(whole(8), 5)), "spot", "a100")

    assert refusal == why(fleet, workload(pods(whole(8), 5)), "a100", "spot")
    assert refusal.reason is Reason.GANG_SHORT
    assert refusal.message == (
        "Needs 5 pods with 8 free GPUs; flavor a100 has room for 2 (18 whole GPUs free in all)."
    )
    assert refusal.next_step.startswith("Wait for room for 3 more")


def test_replicas_that_must_be_apart_are_short_of_nodes() -> None:
    refusal = why(cluster(node("a")), workload(pods(whole(1), 2), spread=Spread.REQUIRED))

    assert "each on a node of its own; flavor a100 has room for 1" in refusal.message


def test_shares_and_instances_of_a_gang_are_counted_too() -> None:
    fleet = cluster(node("a", gpus=3, mig=(0,)))
    place(fleet, request(workload(pods(share(300)))))

    assert why(fleet, workload(pods(share(400), 9))).evidence["pods_fit"] == 3
    assert why(fleet, workload(pods(mig("3g.40gb"), 9))).evidence["pods_fit"] == 2


@pytest.mark.parametrize("topology", [TopologyRequest(), TopologyRequest(required=Level.RACK)])
def test_pod_sets_that_fit_alone_but_not_together(topology: TopologyRequest) -> None:
    fleet = cluster(node("a", gpus=2), node("b", gpus=1, rack="r"))

    refusal = why(
        fleet,
        workload(
            pods(whole(2), name="x", cpu_milli=50_000),
            pods(whole(1), name="y", cpu_milli=50_000, memory_mib=1),
            pods(name="z", cpu_milli=90_000),
            topology=topology,
        ),
    )

    assert refusal.reason is Reason.GANG_SHORT
    assert refusal.message.endswith(
        "flavor a100, filled in this order, has room for 1 of 1 x, 1 of 1 y and 0 of 1 z."
    )


def test_a_preferred_level_is_never_the_reason() -> None:
    fleet = cluster(node("a", gpus=2))

    refusal = why(
        fleet,
        workload(
            pods(whole(1), name="x", cpu_milli=50_000),
            pods(whole(1), name="y", cpu_milli=60_000),
            topology=TopologyRequest(preferred=Level.RACK),
        ),
    )

    assert refusal.reason is Reason.GANG_SHORT


def test_a_topology_request_without_gpus_is_explained_without_gpus() -> None:
    fleet = cluster(*(node(f"n{i}", cpu_milli=1000) for i in range(3)))

    refusal = why(
        fleet,
        workload(pods(count=2, cpu_milli=900), topology=TopologyRequest(required=Level.RACK)),
    )

    assert refusal.reason is Reason.TOPOLOGY
    assert refusal.message.endswith("has room for 1.")


def test_numbers_read_well() -> None:
    assert [count(1, "node"), count(2, "node")] == ["1 node", "2 nodes"]
    assert [has(1), has(0), has(2)] == ["has", "have", "have"]
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert amount("memory_mib", 5) == "5 MiB of memory"


@pytest.mark.parametrize(
    ("asked", "fit"),
    [(pods(whole(1), 65), 64), (pods(share(500, 10), 129), 128), (pods(mig("1g.10gb", 8), 9), 0)],
)
def test_what_is_large_is_counted_before_anything_is_charged(asked: PodSet, fit: int) -> None:
    fleet = cluster(*(node(f"n{at}") for at in range(8)), node("mig", gpus=1, mig=(0,)))
    changes = len(fleet.changes)

    refusal = why(fleet, workload(asked))

    assert len(fleet.changes) == changes
    if fit:
        assert refusal.evidence["pods_fit"] == fit
    else:
        assert refusal.evidence["mig_positions_free"] == 7


def test_as_many_as_there_is_room_for_are_placed() -> None:
    fleet = cluster(*(node(f"n{at}") for at in range(9)))

    assert isinstance(place(fleet, request(workload(pods(whole(1), 72)))), Placement)


def test_many_that_must_be_apart_are_short_of_nodes() -> None:
    fleet = cluster(*(node(f"n{at}") for at in range(70)))

    refusal = why(fleet, workload(pods(whole(1), 71), spread=Spread.REQUIRED))

    assert refusal.evidence["pods_fit"] == 70


def test_of_nodes_without_enough_gpus_in_one_numa_domain_the_best_is_named() -> None:
    fleet = cluster(
        node("a", unhealthy=(0, 4)),
        node("b", unhealthy=(0, 1, 4, 5)),
        node("c", unhealthy=(0, 5)),
    )
    aligned = TopologyRequest(numa_aligned=True)

    refusal = why(fleet, workload(pods(whole(4)), topology=aligned))

    assert "has 3 in one NUMA domain" in refusal.message
    assert refusal.evidence["best_numa_domain_gpus_free"] == 3
