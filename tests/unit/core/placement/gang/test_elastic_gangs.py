"""Gangs that may be smaller than asked: how large they are placed, how they grow and shrink."""

from __future__ import annotations

from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import (
    Level,
    Placement,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
)
from shared.core.model.units import UNLIMITED, Resources
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, grow, place
from shared.core.placement.resize import charge_of, joined, shrunk_to, sizes, surplus
from tests.support.placing import (
    cluster,
    node,
    placed,
    pods,
    racks,
    racks_of,
    refused,
    request,
    whole,
    workload,
)


def elastic(count: int, min_count: int, gpus: int = 8) -> PodSet:
    return replace(pods(whole(gpus), count, cpu_milli=1000), min_count=min_count)


def test_an_elastic_gang_takes_what_there_is_and_is_charged_for_it() -> None:
    placement = placed(cluster(*racks(3)), workload(elastic(5, 2)))

    assert len(placement.pods) == 3
    assert placement.charge == Resources(gpu_milli=24_000, cpu_milli=3000, memory_mib=0)


def test_an_elastic_gang_prefers_to_be_whole_in_a_later_flavor() -> None:
    fleet = cluster(*racks(3), *(node(f"h{number}", flavor="h100") for number in range(5)))

    answer = place(fleet, request(workload(elastic(5, 2)), "a100", "h100"))

    assert isinstance(answer, Placement)
    assert (answer.flavor, len(answer.pods)) == ("h100", 5)


def test_quota_bounds_an_elastic_gang_from_above_and_below() -> None:
    fleet = cluster(*racks(6))

    def ask(gpus: int) -> Placement | Refusal:
        headroom = Resources(gpu_milli=gpus * 1000, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)
        asked = PlacementRequest(
            workload=workload(elastic(5, 2)), flavors=("a100",), headroom={"a100": headroom}
        )
        return place(fleet, asked)

    short = ask(15)
    assert isinstance(short, Refusal)
    assert short.reason is Reason.WAITING_FOR_QUOTA
    assert short.evidence["needed_gpu_milli"] == 16_000
    enough = ask(31)
    assert isinstance(enough, Placement)
    assert len(enough.pods) == 3


def test_sets_shrink_where_most_is_to_spare() -> None:
    large, small = elastic(6, 1, gpus=1), replace(elastic(3, 1, gpus=1), name="other")

    placement = placed(cluster(*racks(1, gpus=5)), workload(large, small))

    sets = [pod.pod_set for pod in placement.pods]
    assert (sets.count("main"), sets.count("other")) == (2, 3)
    assert [pod.rank for pod in placement.pods] == list(range(5))


def test_the_least_of_an_elastic_gang_is_what_a_refusal_speaks_of() -> None:
    answer = refused(cluster(*racks(2)), workload(elastic(9, 3)))

    assert answer.message.startswith("Needs 3 pods")
    assert answer.evidence["pods_fit"] == 2


def test_a_gang_grows_next_to_where_it_runs_and_within_its_required_level() -> None:
    fleet = cluster(*racks(4, 6))
    holder = placed(
        fleet, workload(pods(whole(8), 2), topology=TopologyRequest(required=Level.RACK))
    )
    topology = TopologyRequest(required=Level.RACK)
    asked = workload(elastic(9, 2), topology=topology)
    running = placed(fleet, asked)
    assert len(running.pods) == 6
    assert grow(fleet, request(asked), running) is None

    fleet.release("red", running.pods[3:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:3])
    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert [pod.rank for pod in added.pods] == [3, 4, 5]
    assert set(racks_of(added)) == set(racks_of(kept))
    assert set(racks_of(holder)).isdisjoint(racks_of(kept))
    assert added.span is Level.RACK


def test_growth_stays_within_quota_and_on_nodes_of_its_own_where_asked() -> None:
    fleet = cluster(*racks(5))
    asked = workload(elastic(5, 1, gpus=1), spread=Spread.REQUIRED)
    running = placed(fleet, asked)
    fleet.release("red", running.pods[1:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:1])
    headroom = {"a100": Resources(gpu_milli=2500, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)}

    added = grow(
        fleet, PlacementRequest(workload=asked, flavors=("a100",), headroom=headroom), kept
    )

    assert added is not None
    assert len({pod.node for pod in (*kept.pods, *added.pods)}) == 3


def test_a_slice_that_is_added_lies_in_a_domain_as_wide_as_slices_are() -> None:
    """The node on which the gang runs has room for none: its rack is asked next."""
    fleet = cluster(*racks(4, 4))
    asked = workload(replace(elastic(6, 2), slices=(Slice(pods=2, level=Level.RACK),)))
    running = placed(fleet, asked)
    fleet.release("red", running.pods[2:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:2])

    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert len(added.pods) == 4
    for first, second in ((0, 1), (2, 3)):
        assert racks_of(added)[first] == racks_of(added)[second]


def test_a_gang_that_runs_may_shrink_to_its_least_by_whole_slices() -> None:
    fleet = cluster(*racks(8))
    plain = workload(elastic(4, 2, gpus=1))
    in_pairs = workload(replace(elastic(6, 2), slices=(Slice(pods=2, level=Level.RACK),)))

    assert sizes(plain, placed(fleet, plain)) == (3, 2)
    assert sizes(in_pairs, placed(fleet, in_pairs)) == (4, 2)
    assert sizes(workload(pods(whole(1), 3)), placed(fleet, workload(pods(whole(1), 3)))) == ()


def test_what_a_gang_can_do_without_has_the_highest_ranks() -> None:
    fleet = cluster(*racks(8))
    servers = replace(pods(whole(1), 2), name="servers")
    asked = workload(elastic(5, 3, gpus=1), servers)
    running = placed(fleet, asked)

    assert [pod.pod_set for pod in running.pods[3:]] == ["servers", "servers", "main", "main"]
    assert sizes(asked, running) == (6, 5)
    assert {pod.pod_set for pod in surplus(running, 5)} == {"main"}


def test_a_gang_whose_last_rank_must_stay_gives_up_nothing() -> None:
    """As one that was placed before ranks were given so."""
    fleet = cluster(*racks(8))
    servers = replace(pods(whole(1), 1), name="servers")
    asked = workload(servers, elastic(2, 1, gpus=1))
    running = placed(fleet, asked)
    turned = tuple(replace(pod, rank=2 - pod.rank) for pod in running.pods)

    assert sizes(asked, running) == (2,)
    assert sizes(asked, replace(running, pods=turned)) == ()


def test_what_stays_and_what_is_added_make_up_the_charge() -> None:
    fleet = cluster(*racks(8))
    asked = workload(elastic(4, 1, gpus=2))
    running = placed(fleet, asked)

    kept = shrunk_to(asked, running, 1)
    fleet.release("red", surplus(running, 1), asked.spec.pod_sets)
    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert kept.charge == charge_of(asked, kept.pods)
    assert joined(kept, added).charge == running.charge
    assert [pod.rank for pod in joined(kept, added).pods] == [0, 1, 2, 3]


def test_only_the_pod_set_that_lost_pods_grows() -> None:
    fleet = cluster(*racks(4))
    whole_set, short = (
        replace(pods(whole(8), 2), name="whole"),
        replace(elastic(2, 1), name="short"),
    )
    asked = workload(whole_set, short)
    running = placed(fleet, asked)
    lost = [pod for pod in running.pods if pod.pod_set == "short"][-1:]
    fleet.release("red", lost, asked.spec.pod_sets)
    kept = replace(running, pods=tuple(pod for pod in running.pods if pod not in lost))

    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert ["short"] == [pod.pod_set for pod in added.pods]
