"""The state of the fleet: inventory, what is held, health, the digest."""

from __future__ import annotations

import pytest

from shared.core.cluster.free_list import CHUNK, FreeList
from shared.core.cluster.node_state import NodeState
from shared.core.cluster.ordering_ties import node_rank
from shared.core.model.nouns import GpuShare, Node, Placement, PodPlacement
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, mig, node, pods, request, share, whole, workload

WHOLE = GpuShare(index=0, mask=255, milli=1000, memory_mib=81_920)


def held(node_name: str, *shares: GpuShare) -> tuple[PodPlacement, ...]:
    return (PodPlacement(pod_set="main", rank=0, node=node_name, shares=shares),)


def test_totals_count_reported_gpus_and_held_milli() -> None:
    fleet = cluster(node("a"), node("b", gpus=2))

    assert fleet.gpu_milli_total() == 10_000
    place(fleet, request(workload(pods(share(300)))))
    assert fleet.gpu_milli_used() == 300

    fleet.put_node(node("b", gpus=4))
    fleet.remove_node("a")
    assert fleet.gpu_milli_total() == 4_000


def test_release_gives_back_exactly_what_charge_took() -> None:
    fleet = cluster(node("a", mig=(0,)))
    before = fleet.digest()
    sets = (pods(mig("1g.10gb+me"), cpu_milli=1000, memory_mib=5),)

    fleet.charge("red", held("a", GpuShare(index=0, mask=1, milli=125, memory_mib=9)), sets)
    assert fleet.digest() != before
    fleet.release("red", held("a", GpuShare(index=0, mask=1, milli=125, memory_mib=9)), sets)

    assert fleet.digest() == before


@pytest.mark.parametrize(
    "second",
    [
        ("red", GpuShare(index=0, mask=255, milli=1000, memory_mib=0)),
        ("red", GpuShare(index=0, mask=0, milli=800, memory_mib=0)),
        ("blue", GpuShare(index=0, mask=0, milli=100, memory_mib=0)),
    ],
)
def test_an_overlap_is_a_programmers_error(second: tuple[str, GpuShare]) -> None:
    fleet = cluster(node("a"))
    first = GpuShare(index=0, mask=0, milli=300, memory_mib=0)
    fleet.charge("red", held("a", first), (pods(),))

    team, taken = second
    with pytest.raises(AssertionError):
        fleet.charge(team, held("a", taken), (pods(),))


def test_allocations_may_be_known_before_their_node() -> None:
    fleet = Cluster()
    fleet.charge("red", held("a", WHOLE), (pods(whole(1), cpu_milli=95_000),))
    assert fleet.node("a") is None

    fleet.put_node(node("a", gpus=2))

    answer = place(fleet, request(workload(pods(whole(1), cpu_milli=1_000))))
    assert isinstance(answer, Placement)
    assert answer.pods[0].shares[0].index == 1
    assert not isinstance(place(fleet, request(workload(pods(cpu_milli=1)))), Placement)


def test_a_removed_node_is_known_until_what_it_holds_is_released() -> None:
    fleet = cluster(node("a"))
    sets = (pods(whole(1)),)
    fleet.charge("red", held("a", WHOLE), sets)

    fleet.remove_node("a")
    fleet.remove_node("never seen")

    assert fleet.node("a") is None
    assert fleet.gpu_milli_used() == 1000
    fleet.release("red", held("a", WHOLE), sets)
    assert not fleet.nodes
    assert not fleet.node_classes


def test_a_gpu_that_is_no_longer_reported_stays_charged_and_is_not_offered() -> None:
    fleet = cluster(node("a", gpus=2))
    last = GpuShare(index=1, mask=255, milli=1000, memory_mib=0)
    fleet.charge("red", held("a", last), (pods(whole(1)),))

    fleet.put_node(node("a", gpus=1))
    assert fleet.gpu_milli_used() == 1000
    fleet.release("red", held("a", last), (pods(whole(1)),))

    assert sorted(fleet.nodes["a"].uses) == [0]


def test_a_free_gpu_that_is_no_longer_reported_is_forgotten() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0, 1)))

    fleet.put_node(node("a", gpus=1, mig=(0,)))

    assert not isinstance(place(fleet, request(workload(pods(mig("7g.80gb", 2))))), Placement)
    assert fleet.gpu_milli_total() == 1000


def test_an_unhealthy_gpu_takes_no_new_work_and_returns() -> None:
    fleet = cluster(node("a", gpus=2))
    asked = request(workload(pods(whole(2))))

    fleet.set_gpu_health("a", 1, healthy=False)
    assert not isinstance(place(fleet, asked), Placement)
    shown = fleet.node("a")
    assert shown is not None
    assert [gpu.healthy for gpu in shown.gpus] == [True, False]

    fleet.set_gpu_health("a", 1, healthy=True)
    assert isinstance(place(fleet, asked), Placement)


def test_an_unhealthy_node_takes_no_new_work_until_it_returns_or_reports() -> None:
    fleet = cluster(node("a"))
    asked = request(workload(pods()))
    fleet.set_gpu_health("unknown", 0, healthy=False)

    fleet.set_gpu_health("a", -1, healthy=False)
    assert not isinstance(place(fleet, asked), Placement)
    fleet.set_gpu_health("a", -1, healthy=True)
    assert isinstance(place(fleet, asked), Placement)

    fleet.set_gpu_health("a", -1, healthy=False)
    fleet.put_node(node("a"))
    assert isinstance(place(fleet, asked), Placement)


@pytest.mark.parametrize("out", [node("a", ready=False), node("a", cordoned=True)])
def test_a_node_out_of_service_takes_no_new_work(out: Node) -> None:
    fleet = cluster(out)

    assert not isinstance(place(fleet, request(workload(pods()))), Placement)


def test_the_digest_does_not_depend_on_the_order_of_reports_but_on_all_that_is_held() -> None:
    first = cluster(node("a"), node("b"))
    second = cluster(node("b"), node("a"))
    assert first.digest() == second.digest()

    second.charge("red", held("a"), (pods(cpu_milli=1),))
    assert first.digest() != second.digest()


def test_a_node_that_changes_its_kind_is_offered_under_the_new_one_only() -> None:
    fleet = cluster(node("a"))
    fleet.put_node(node("a", flavor="h100"))

    assert not isinstance(place(fleet, request(workload(pods()), "a100")), Placement)
    assert isinstance(place(fleet, request(workload(pods()), "h100")), Placement)
    assert len(fleet.node_classes) == 1


def test_ties_follow_the_seed_and_never_the_name() -> None:
    names = [f"n{number}" for number in range(20)]

    def first_choice(seed: int) -> str:
        answer = place(cluster(*map(node, names), seed=seed), request(workload(pods())))
        assert isinstance(answer, Placement)
        return answer.pods[0].node

    choices = [first_choice(seed) for seed in range(10)]
    assert choices == [first_choice(seed) for seed in range(10)]
    assert len(set(choices)) > 3
    assert node_rank(1, "a") == node_rank(1, "a") != node_rank(2, "a")
    assert NodeState("a", 1) < NodeState("b", 1)


def test_a_gpu_switched_to_mig_while_shared_takes_no_instances() -> None:
    fleet = cluster(node("a", gpus=1))
    fleet.charge("red", held("a", GpuShare(index=0, mask=0, milli=300, memory_mib=1)), (pods(),))

    fleet.put_node(node("a", gpus=1, mig=(0,)))

    assert not isinstance(place(fleet, request(workload(pods(mig("1g.10gb"))))), Placement)
    assert not isinstance(place(fleet, request(workload(pods(share(100))))), Placement)


def test_memory_of_an_unreported_gpu_is_unknown() -> None:
    state = NodeState("a", 1)

    assert state.use(3).free_memory_mib == 0
    assert state.gpu_memory_mib(3) == 0


def free_list_of(amounts: list[int]) -> FreeList:
    free_list = FreeList()
    for number, amount in enumerate(amounts):
        state = NodeState(f"n{number}", number)
        state.free_cpu_milli = amount
        state.free_memory_mib = 10 * (number % 7)
        free_list.add((amount, number, -1, state))
    return free_list


@pytest.mark.parametrize("size", [7, 5 * CHUNK])
def test_a_shelf_finds_the_smallest_entry_that_suffices(size: int) -> None:
    amounts = [(number * 37) % 1000 for number in range(size)]
    free_list = free_list_of(amounts)

    for need in range(0, 1100, 13):
        for memory_mib in (0, 30, 60, 70):
            expected = min(
                (
                    (amount, number)
                    for number, amount in enumerate(amounts)
                    if amount >= need and 10 * (number % 7) >= memory_mib
                ),
                default=None,
            )
            found = free_list.first(need, need, memory_mib)
            assert (found and found[:2]) == expected
        assert free_list.count_from(need) == sum(amount >= need for amount in amounts)
        fitting = [entry[0] for entry in free_list.fitting(need, 0, 60)]
        assert fitting == sorted(fitting)
        assert all(amount >= need for amount in fitting)
        below = [entry[:2] for entry in free_list.below(need)]
        assert below == [entry[:2] for entry in reversed(list(free_list)) if entry[0] < need]
        most = free_list.most_memory(need)
        memory = [(10 * (at % 7), amount, at) for at, amount in enumerate(amounts)]
        best = max((each for each in memory if each[1] >= need), default=None)
        assert (most and (most[3].free_memory_mib, *most[:2])) == best
    assert [entry[0] for entry in free_list] == sorted(amounts)


def test_a_shelf_forgets_what_is_taken_off() -> None:
    free_list = free_list_of([5] * (3 * CHUNK))

    for entry in list(free_list):
        free_list.remove(entry)

    assert free_list.size == 0
    assert free_list.first(0, 0, 0) is None
    assert free_list.most_memory(0) is None
    assert not list(free_list.below(9))
    assert free_list.count_from(0) == 0
