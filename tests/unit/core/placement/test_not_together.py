"""Pod sets that find room one by one and not together: which is short, by how much, and where."""

from __future__ import annotations

from shared.core.model.decision import Reason
from shared.core.model.demand import gang_of
from shared.core.model.nouns import Level, PodRole, PodSet, Slice, Spread, TopologyRequest
from shared.core.model.value import replace
from shared.core.placement.explain.draft import STEPS_MAX, Drafts
from shared.core.placement.explain.not_together import short_in_domain
from shared.core.scoring.cluster import Cluster
from tests.support.placing import (
    cluster,
    mig,
    node,
    pods,
    racks,
    refused,
    share,
    whole,
    workload,
)

IN_RACK = TopologyRequest(required=Level.RACK)
IN_ZONE = TopologyRequest(required=Level.ZONE)


def leader(pod_set: PodSet) -> PodSet:
    return replace(pod_set, name="leader", role=PodRole.LEADER)


def two_racks() -> Cluster:
    """Of two nodes each, with 8 GPUs."""
    return cluster(*racks(2, 2))


def test_the_best_rack_is_named_with_the_set_that_is_short_there() -> None:
    fleet = cluster(*racks(2, 2), node("r0-small", gpus=3, rack="r0", block="b0", zone="z"))
    fleet.put_node(node("r1-n0", rack="r1", block="b0", zone="z", unhealthy=(0,)))

    refusal = refused(
        fleet,
        workload(pods(whole(8), 2, name="w"), pods(whole(4), name="ps"), topology=IN_RACK),
    )

    assert refusal.reason is Reason.TOPOLOGY
    assert refusal.message == (
        "Needs 2 x 8 free GPUs (w) and 1 x 4 free GPUs (ps) in one rack; the best, rack r0, "
        "filled in this order, has room for 2 of 2 w and 0 of 1 ps."
    )
    assert refusal.evidence == {
        "pods_needed": 3,
        "best_domain_pods_fit": 2,
        "pods_short_of_set": 1,
    }


def test_a_leader_that_finds_no_room_beside_its_workers_is_told_of() -> None:
    refusal = refused(
        two_racks(),
        workload(
            leader(pods(cpu_milli=90_000)),
            pods(whole(8), 2, name="w", cpu_milli=10_000),
            topology=IN_RACK,
        ),
    )

    assert refusal.reason is Reason.TOPOLOGY
    assert refusal.message.endswith("has room for 2 of 2 w and 0 of 1 leader.")


def test_sets_of_one_shape_count_as_one() -> None:
    sets = (pods(whole(8), 2, name="w"), pods(whole(8), name="ps"))

    in_rack = refused(two_racks(), workload(*sets, topology=IN_RACK))
    anywhere = refused(cluster(*racks(2)), workload(*sets))

    assert "Needs 3 pods with 8 free GPUs in one rack; the best, rack r" in in_rack.message
    assert "Needs 3 pods with 8 free GPUs; flavor a100 has room for 2" in anywhere.message


def test_a_leader_and_workers_that_must_be_apart_are_short_of_nodes() -> None:
    fleet = cluster(*racks(2))
    alike = workload(leader(pods(whole(1))), pods(whole(1), 2, name="w"), spread=Spread.REQUIRED)
    unlike = workload(leader(pods()), pods(whole(1), 2, name="w"), spread=Spread.REQUIRED)

    refusal = refused(fleet, unlike)

    assert "each on a node of its own; flavor a100 has room for 2" in refused(fleet, alike).message
    assert refusal.reason is Reason.GANG_SHORT
    assert refusal.message == (
        "Needs 2 x 1 free GPU (w) and 1 x nothing but a place (leader), each pod on a node of its "
        "own; flavor a100, filled in this order, has room for 2 of 2 w and 0 of 1 leader."
    )
    assert refusal.next_step.startswith("Wait for room for 1 more of leader")


def test_sets_that_no_one_flavor_has_together_are_told_what_each_flavor_has() -> None:
    fleet = cluster(
        node("a", gpus=1, cpu_milli=4000),
        node("c", gpus=0, product="", flavor="cpu"),
        node("d", gpus=0, product="", flavor="dpu", cpu_milli=10_000),
        node("e", gpus=0, product="", flavor="epu", cpu_milli=10_000),
    )
    asked = workload(pods(whole(1), name="w"), pods(count=2, name="l", cpu_milli=9000))

    refusal = refused(fleet, asked, "epu", "dpu", "cpu", "a100")

    assert refusal.reason is Reason.GANG_SHORT
    assert refusal.message == (
        "Needs 1 x 1 free GPU (w) and 2 x 9000 milli-CPU (l) in one flavor, but no one has them "
        "all: cpu has room for 0 of 1 w and 2 of 2 l; a100 has room for 1 of 1 w and 0 of 2 l; "
        "dpu has room for 0 of 1 w and 1 of 2 l."
    )
    assert refusal.evidence == {"pods_needed": 3, "pods_fit": 2}


def test_of_several_flavors_the_one_with_room_for_most_pods_is_told() -> None:
    def flavor(name: str, gpus: int) -> list[object]:
        return [node(f"{name}{at}", gpus=gpus, flavor=name, cpu_milli=9000) for at in range(2)]

    fleet = cluster(*flavor("few", 4), *flavor("many", 8), *flavor("least", 4))  # type: ignore[arg-type]
    sets = (pods(whole(4), 2, name="w", cpu_milli=1), pods(whole(1), 3, name="l"))
    refusal = refused(fleet, workload(*sets), "few", "least")
    assert (
        "flavor few, filled in this order, has room for 2 of 2 w and 0 of 3 l" in refusal.message
    )

    more = (*sets, pods(count=4, name="c", cpu_milli=4500))
    refusal = refused(fleet, workload(*more), "few", "many", "least")
    assert "flavor many, filled in this order, has room for 2 of 2 w, 3 of 3 l" in refusal.message


def test_shares_and_instances_beside_whole_gpus_are_counted_by_gpu() -> None:
    fleet = cluster(node("a", gpus=2, mig=(1,)))
    shares = workload(pods(whole(1), name="w"), pods(share(500), 1, name="s"))
    instances = workload(pods(mig("4g.40gb"), name="m"), pods(mig("3g.40gb"), 2, name="n"))

    assert refused(fleet, shares).message.endswith("has room for 1 of 1 w and 0 of 1 s.")
    assert refused(fleet, instances).message.endswith("has room for 1 of 1 m and 1 of 2 n.")


def test_sets_on_one_node_are_counted_one_beside_the_other() -> None:
    asked = workload(*(pods(whole(gpus), name=f"s{gpus}") for gpus in (4, 3, 2)))

    refusal = refused(cluster(node("a")), asked)

    assert refusal.message.endswith("has room for 1 of 1 s4, 1 of 1 s3 and 0 of 1 s2.")


def test_gpus_of_one_numa_domain_are_counted_by_domain() -> None:
    aligned = TopologyRequest(numa_aligned=True)
    asked = workload(pods(whole(3), name="w"), pods(whole(4), 2, name="v"), topology=aligned)

    refusal = refused(cluster(node("a")), asked)

    assert refusal.message.endswith("has room for 2 of 2 v and 0 of 1 w.")


def test_the_best_of_several_racks_is_told_with_how_many_were_looked_at() -> None:
    fleet = cluster(*racks(1, 1, 1, 1, 1, 1))

    refusal = refused(
        fleet, workload(pods(whole(4), 2, name="w"), pods(whole(1), name="l"), topology=IN_RACK)
    )

    assert "in one rack; the best of 3 looked at, rack r" in refusal.message


def test_what_is_too_large_to_be_counted_is_told_by_the_room_of_each_set_alone() -> None:
    nodes = [node(f"n{at}", gpus=1, zone="z") for at in range(STEPS_MAX + 4)]
    fleet = cluster(*nodes, *(node(f"m{at}", zone="y") for at in range(16)))
    large = (pods(whole(1), STEPS_MAX + 2, name="w"), pods(share(500), 8, name="s"))

    refusal = refused(fleet, workload(*large, topology=IN_ZONE))

    assert refusal.reason is Reason.TOPOLOGY
    assert " in one zone; zone z has room for " in refusal.message
    assert refusal.message.endswith(" of s alone, but not for all together.")


def test_sets_in_slices_are_told_by_the_room_of_each_alone() -> None:
    def sliced(name: str, count: int, cpu_milli: int) -> PodSet:
        pod_set = pods(whole(8), count, name=name, cpu_milli=cpu_milli)
        return replace(pod_set, slices=(Slice(pods=count, level=Level.RACK),))

    fleet, sets = cluster(*racks(3, 1)), (sliced("a", 2, 2000), sliced("b", 3, 1000))

    in_rack = refused(fleet, workload(*sets, topology=IN_RACK))
    anywhere = refused(fleet, workload(*sets))

    assert in_rack.message.endswith(
        "in one rack; rack r0 has room for 2 of a or 3 of b alone, but not for all together."
    )
    assert anywhere.message == (
        "Each pod set finds room by itself, but not all together: 2 x 8 free GPUs and 2000 "
        "milli-CPU (a) and 3 x 8 free GPUs and 1000 milli-CPU (b)."
    )
    assert "alike" not in anywhere.next_step


def test_nothing_is_said_of_domains_that_should_hold_the_gang_or_do_not_exist() -> None:
    gang = gang_of(workload(pods(whole(8), name="w"), pods(whole(4), name="l")))

    for fleet in (cluster(*racks(2)), Cluster()):
        assert short_in_domain(Drafts(fleet, gang), ("a100",), Level.RACK) is None
