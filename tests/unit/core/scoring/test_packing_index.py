"""What the mix of demand remembers, and what it makes of nodes that are otherwise alike."""

from __future__ import annotations

from copy import deepcopy

import pytest

from shared.core.model.demand import gang_of
from shared.core.model.nouns import GpuChoice, Placement, Workload
from shared.core.placement.place import learn, place
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.equivalence_classes import NODE_CLASSES_MAX
from shared.core.scoring.learned_counts import CLASSES_MAX, TOTAL_MAX
from shared.core.scoring.learned_scores import SCORES_MAX
from shared.core.scoring.mix import LEARNED_MIN, DemandMix
from tests.support.placing import cluster, node, pods, request, share, whole, workload


def teach(fleet: Cluster, *asked: Workload) -> None:
    mix = fleet.packing("a100").mix
    while not mix.version:
        for each in asked:
            mix.note(gang_of(each), placed=True)


def where(fleet: Cluster, asked: Workload) -> str:
    answer = place(fleet, request(asked))
    assert isinstance(answer, Placement), answer
    return answer.pods[0].node


def one_gpu(cpu_milli: int = 8000, *products: str) -> Workload:
    return workload(
        pods(whole(1), cpu_milli=cpu_milli), choice=GpuChoice(products=tuple(products))
    )


def test_a_class_that_is_refused_again_and_again_counts_once() -> None:
    mix = DemandMix()
    for _ in range(9):
        mix.note(gang_of(one_gpu()), placed=False)

    assert list(mix.counts.values()) == [1]

    mix.note(gang_of(one_gpu()), placed=True)
    mix.note(gang_of(one_gpu()), placed=False)

    assert list(mix.counts.values()) == [3]


def test_what_is_remembered_stays_bounded_and_the_old_fades() -> None:
    mix = DemandMix()
    for _ in range(TOTAL_MAX):
        mix.note(gang_of(one_gpu()), placed=True)
    for cpu_milli in range(4 * CLASSES_MAX):
        mix.note(gang_of(one_gpu(cpu_milli)), placed=True)
        mix.note(gang_of(one_gpu(cpu_milli)), placed=False)

    assert len(mix.counts) <= CLASSES_MAX
    assert len(mix._pods._refused) <= CLASSES_MAX
    assert sum(mix.counts.values()) < TOTAL_MAX


def test_nothing_is_known_before_enough_was_asked() -> None:
    mix = DemandMix()
    for _ in range(LEARNED_MIN - 1):
        mix.note(gang_of(one_gpu()), placed=True)

    assert mix.version == 0

    mix.note(gang_of(one_gpu()), placed=True)

    assert mix.version == 1


def test_a_product_that_others_are_bound_to_is_left_to_them() -> None:
    scarce = [node(f"t4-{number}", gpus=4, product="T4") for number in range(3)]
    plenty = [node(f"g2-{number}", gpus=4, product="G2") for number in range(4)]
    fleet = cluster(*scarce, *plenty)
    teach(fleet, one_gpu(8000, "T4"), one_gpu(8000))

    assert {where(fleet, one_gpu(8000))[:2] for _ in range(16)} == {"g2"}
    assert where(fleet, one_gpu(8000)).startswith("t4")


def test_no_gpu_is_left_without_cpu_while_another_node_has_some_to_spare() -> None:
    lean = [node(f"lean-{number}", gpus=8, cpu_milli=96_000) for number in range(4)]
    rich = [node(f"rich-{number}", gpus=2, cpu_milli=64_000) for number in range(4)]
    fleet = cluster(*lean, *rich)
    teach(fleet, one_gpu(11_000), one_gpu(13_000))

    assert {where(fleet, one_gpu(28_000))[:4] for _ in range(4)} == {"rich"}


def test_cpu_work_goes_to_nodes_without_gpus_first() -> None:
    fleet = cluster(*(node(f"gpu-{n}") for n in range(5)), node("bare", gpus=0))
    teach(fleet, one_gpu(), workload(pods(cpu_milli=4000)))

    assert where(fleet, workload(pods(cpu_milli=4000))) == "bare"


def test_cpu_work_that_comes_before_any_gpu_work_leaves_the_gpus_their_cpu() -> None:
    poor = [node(f"poor-{number}", gpus=8, cpu_milli=96_000) for number in range(4)]
    rich = [node(f"rich-{number}", gpus=2, cpu_milli=96_000) for number in range(2)]
    fleet = cluster(*poor, *rich)
    cpu_work = workload(pods(cpu_milli=8000))
    teach(fleet, cpu_work)

    assert {where(fleet, cpu_work)[:4] for _ in range(16)} == {"rich"}


def test_a_share_fills_a_gpu_in_use_before_another_is_opened() -> None:
    fleet = cluster(*(node(f"n{number}") for number in range(6)))
    asked = workload(pods(share(500, 10), cpu_milli=1000))
    teach(fleet, asked, one_gpu())

    assert where(fleet, asked) == where(fleet, asked)


def test_room_for_large_pods_is_left_whole_when_they_are_much_of_the_demand() -> None:
    broken = node("broken", gpus=8, unhealthy=(0,))
    fleet = cluster(*(node(f"whole-{number}") for number in range(6)), broken)
    teach(fleet, workload(pods(whole(8), cpu_milli=80_000)), one_gpu())

    assert {where(fleet, one_gpu()) for _ in range(7)} == {"broken"}


def test_many_conditions_are_told_apart() -> None:
    nodes = [node(f"n{number}", gpus=1, cpu_milli=9000 + 2000 * number) for number in range(90)]
    fleet = cluster(*nodes)
    asked = workload(pods(share(300, 10), cpu_milli=1000))
    teach(fleet, asked)
    for _ in range(300):
        place(fleet, request(asked))
    held = [use.milli for state in fleet.nodes.values() for use in state.uses.values()]

    assert held == 90 * [900]


def test_two_gpus_of_one_node_that_are_as_good_are_told_apart_by_index() -> None:
    fleet = cluster(node("a"))
    large, small = (workload(pods(share(milli, 10))) for milli in (600, 520))
    teach(fleet, workload(pods(share(400, 10))))
    first, second = place(fleet, request(large)), place(fleet, request(small))
    assert isinstance(first, Placement)
    assert isinstance(second, Placement)

    answer = place(fleet, request(workload(pods(share(400, 10)))))

    assert isinstance(answer, Placement)
    assert answer.pods[0].shares[0].index == 0


def test_a_node_that_changes_its_flavor_leaves_its_market() -> None:
    fleet = cluster(node("a"), node("b"))
    teach(fleet, one_gpu())
    place(fleet, request(one_gpu()))
    fleet.put_node(node("a", flavor="other"))

    assert {where(fleet, one_gpu()) for _ in range(6)} == {"b"}


def test_kinds_that_came_and_went_are_forgotten_and_change_no_decision() -> None:
    fleet = cluster(*(node(f"n{number}", gpus=4) for number in range(6)))
    small = workload(pods(share(300), cpu_milli=2000))
    held = [one_gpu(4000), one_gpu(30_000), small, small]
    teach(fleet, *held)
    live = [(each, place(fleet, request(each))) for each in held]
    for upgrade in range(4 * NODE_CLASSES_MAX):
        fleet.put_node(node(f"n{upgrade % 6}", gpus=4, driver=f"535.{upgrade}"))
        tried = place(fleet, request(small))
        assert isinstance(tried, Placement)
        fleet.release(small.team, tried.pods, small.spec.pod_sets)
    packing = fleet.packing("a100")

    assert len(packing.index.node_classes) <= NODE_CLASSES_MAX + 1

    rebuilt = cluster(*(state.inventory for state in fleet.nodes.values() if state.inventory))
    for each, answer in live:
        assert isinstance(answer, Placement)
        rebuilt.charge(each.team, answer.pods, each.spec.pod_sets)
    rebuilt.packing("a100").mix = deepcopy(packing.mix)
    packing.scores._scorer = None  # the tables of both speak of the fleet as it is now
    for each in (small, one_gpu(8000), small, one_gpu(8000), one_gpu(40_000), small):
        assert place(rebuilt, request(each)) == place(fleet, request(each))


def test_a_workload_placed_before_a_restart_is_part_of_the_mix() -> None:
    fleet = cluster(node("n", gpus=8))
    for _ in range(LEARNED_MIN):
        learn(fleet, one_gpu(), "a100")

    assert fleet.packing("a100").learned
    assert [LEARNED_MIN] == list(fleet.packing("a100").mix.counts.values())


def test_a_node_that_is_cordoned_is_no_place_until_it_is_back() -> None:
    fleet = cluster(node("a"), node("b"))
    teach(fleet, one_gpu())
    best = where(fleet, one_gpu())
    other = "b" if best == "a" else "a"
    assert where(fleet, one_gpu()) == best

    fleet.put_node(node(best, cordoned=True))
    assert where(fleet, one_gpu()) == other
    fleet.put_node(node(other, cordoned=True))
    assert not isinstance(place(fleet, request(one_gpu())), Placement)

    fleet.put_node(node(best))
    assert where(fleet, one_gpu()) == best


def test_a_flavor_of_cordoned_nodes_alone_has_no_place() -> None:
    packing = cluster(node("a", cordoned=True)).packing("a100")
    (demand,) = gang_of(one_gpu()).demands

    assert packing.find((), demand, "red", ()) is None


def test_more_classes_than_are_kept_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []
    for scores_max in (SCORES_MAX, 3):
        monkeypatch.setattr("shared.core.scoring.learned_scores.SCORES_MAX", scores_max)
        fleet = cluster(*(node(f"n{number}", cpu_milli=50_000 + number) for number in range(6)))
        teach(fleet, one_gpu())
        answers.append([where(fleet, one_gpu(1000 * (each % 7))) for each in range(28)])
        assert len(fleet.packing("a100").scores._scores) <= min(scores_max, 7)

    assert answers[0] == answers[1]


def test_without_any_gpu_work_is_placed_by_its_cpu() -> None:
    fleet = cluster(node("a", gpus=0, cpu_milli=8000), node("b", gpus=0, cpu_milli=4000))
    asked = workload(pods(cpu_milli=4000))
    teach(fleet, asked)

    assert sorted(where(fleet, asked) for _ in range(3)) == ["a", "a", "b"]
    assert not isinstance(place(fleet, request(asked)), Placement)


def test_demand_that_no_node_can_serve_has_no_price() -> None:
    answers = []
    for beside in ((), (one_gpu(8000, "B200"),)):
        fleet = cluster(*(node(f"n{number}") for number in range(3)))
        teach(fleet, one_gpu(), *beside)
        answers.append([where(fleet, one_gpu()) for _ in range(12)])

    assert answers[0] == answers[1]


def test_a_rack_that_is_told_again_in_the_same_order_moves_none_of_its_nodes() -> None:
    fleet = cluster(*(node(f"n{number}", rack="r", block="b", zone="z") for number in range(3)))
    (packing,) = map(fleet.packing, fleet.flavors())
    index = packing.index
    rack = fleet.nodes["n0"].domain
    assert rack is not None
    domains = {rack: None}

    index.reorder(domains)
    index.follow()
    before = dict(index.places)
    index.reorder(domains)
    index.follow()

    assert before == index.places
