"""What a rest of a shared GPU is worth, and that shares go where nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from shared.core import share_values
from shared.core.cluster import Cluster
from shared.core.demand import gang_of
from shared.core.market_scores import LOST_KEY, LOST_MAX, score_nodes
from shared.core.mix import PodClass
from shared.core.model import Placement, Workload
from shared.core.placement import place
from shared.core.share_values import SIZES_MAX, STEPS, rest_values
from shared.core.waste import waste_of
from tests.support.placing import cluster, node, pods, request, share, whole, workload

OPENB = {810: 35, 470: 24, 320: 11, 650: 8, 230: 5, 460: 4}
"""Shares of the openb trace by milli-GPU, in percent (placement.md 1)."""


def counts_of(asked: dict[int, int]) -> dict[PodClass, int]:
    return {PodClass(0, milli, 4000, ()): count for milli, count in asked.items()}


def test_a_share_is_worth_the_part_of_a_gpu_that_the_best_packing_gives_it() -> None:
    values = rest_values(counts_of(OPENB))

    # 81 alone; 65 + 32; 47 + 47, 47 + 46; 32 three times; 23 four times.
    assert {step: round(values[step]) for step in (81, 65, 47, 46, 32, 23)} == {
        81: 1000,
        65: 667,
        47: 500,
        46: 500,
        32: 333,
        23: 250,
    }
    assert values[STEPS] == 1000
    assert values[19] == values[0] == 0, "nobody takes 190 milli"
    assert values[35] == values[32] == values[34]


def patterns(sizes: list[int], free: int) -> list[list[int]]:
    """Every way to put shares of these sizes on a GPU."""
    if not sizes:
        return [[]]
    return [
        [count, *rest]
        for count in range(free // sizes[0] + 1)
        for rest in patterns(sizes[1:], free - count * sizes[0])
    ]


def gpus_needed(asked: dict[int, int]) -> float:
    """The linear program by ortools: the fewest GPUs, cut in pieces if need be."""
    pywraplp = pytest.importorskip("ortools.linear_solver.pywraplp")
    solver = pywraplp.Solver.CreateSolver("GLOP")
    ways = patterns(list(asked), 10 * STEPS)
    used = [solver.NumVar(0, solver.infinity(), "") for _ in ways]
    for number, count in enumerate(asked.values()):
        solver.Add(sum(n * way[number] for n, way in zip(used, ways, strict=True)) >= count)
    solver.Minimize(sum(used))
    assert solver.Solve() == pywraplp.Solver.OPTIMAL
    return float(solver.Objective().Value())


@pytest.mark.parametrize("seed", range(12))
def test_all_shares_together_are_worth_the_gpus_that_the_best_packing_needs(seed: int) -> None:
    draw = Random(seed)
    sizes = draw.sample(range(150, 1000, 10), draw.randint(2, 7))
    asked = {milli: draw.randint(1, 60) for milli in sizes}

    values = rest_values(counts_of(asked))

    worth = sum(count * values[milli // 10] for milli, count in asked.items())
    assert worth == pytest.approx(1000 * gpus_needed(asked), rel=1e-4)


def test_a_rest_is_worth_at_least_what_its_parts_are_worth() -> None:
    draw = Random(7)
    for _ in range(20):
        asked = {draw.randrange(10, 1000): draw.randint(1, 50) for _ in range(draw.randint(1, 30))}
        values = rest_values(counts_of(asked))

        assert (np.diff(values) >= 0).all()
        for one in range(STEPS + 1):
            for other in range(STEPS + 1 - one):
                assert values[one] + values[other] <= values[one + other] + 0.01


def test_without_shares_no_rest_is_worth_anything() -> None:
    assert not rest_values({PodClass(1, 0, 8000, ()): 9, PodClass(0, 0, 1000, ()): 9}).any()


def test_shares_of_one_size_are_counted_together_whatever_else_they_ask_for() -> None:
    apart = {PodClass(0, 470, 4000, ()): 9, PodClass(0, 462, 9000, ("T4",)): 15}

    assert (rest_values(apart) == rest_values(counts_of({470: 24}))).all()


def test_only_so_many_sizes_are_priced_the_most_asked_for_first() -> None:
    rare = {10 * size: 1 for size in range(1, 31)}
    often = {10 * size: 9 for size in range(40, 40 + SIZES_MAX)}

    assert (rest_values(counts_of(rare | often)) == rest_values(counts_of(often))).all()


def test_prices_that_are_not_finished_still_make_a_whole_gpu_worth_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_values, "ROUNDS_MAX", 0)
    share_values._values.cache_clear()

    values = rest_values(counts_of(OPENB))

    share_values._values.cache_clear()
    assert values[STEPS] == 1000
    assert values.max() == 1000


def teach(fleet: Cluster) -> None:
    """OPENB's shares, and whole GPUs beside them."""
    mix = fleet.market("a100").mix
    while not mix.version:
        for milli, count in OPENB.items():
            for _ in range(count):
                mix.note(gang_of(shared(milli)), placed=True)
        for _ in range(50):
            mix.note(gang_of(workload(pods(whole(1), cpu_milli=8000))), placed=True)


def shared(milli: int) -> Workload:
    return workload(pods(share(milli, 10), cpu_milli=1000))


def where(fleet: Cluster, milli: int) -> str:
    answer = place(fleet, request(shared(milli)))
    assert isinstance(answer, Placement), answer
    return answer.pods[0].node


def fleet_with(held: dict[str, int]) -> Cluster:
    """One GPU on each node, with a share of so many milli on it."""
    nodes = {name: node(name, gpus=1, cpu_milli=32_000) for name in held}
    fleet = cluster(*nodes.values())
    teach(fleet)
    for name, milli in held.items():
        there = place(cluster(nodes[name]), request(shared(milli)))
        assert isinstance(there, Placement)
        fleet.charge(shared(milli).team, there.pods, shared(milli).spec.pod_sets)
    return fleet


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_a_share_goes_where_the_rest_can_still_be_used_up(first: str, second: str) -> None:
    fleet = fleet_with({first: 470, second: 650})

    assert where(fleet, 320) == second, "470 + 320 would leave 210, which nobody takes"
    assert where(fleet, 460) == first


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_of_gpus_on_which_nothing_is_lost_one_that_stays_useful_is_taken(
    first: str, second: str
) -> None:
    fleet = fleet_with({first: 650, second: 320})

    assert where(fleet, 320) == second, "650 + 320 would use up the GPU"
    assert where(fleet, 320) != where(fleet, 320), "two places are left, and both are taken"


def test_opening_a_gpu_for_a_share_of_an_unknown_size_loses_what_its_rest_cannot_hold() -> None:
    kinds = [kind for state in fleet_with({"a": 500}).nodes.values() if (kind := state.kind)]
    waste = waste_of(counts_of({500: 9}), kinds)
    blind = replace(waste, rests=np.zeros_like(waste.rests))
    one_free = np.array([[0, 1, 0, 16]])

    def lost(milli: int) -> int:
        (demand,) = gang_of(shared(milli)).demands
        seen, unseen = (
            score_nodes(tables, np.array([True]), one_free, demand) for tables in (waste, blind)
        )
        return int((unseen - seen)[0])

    assert lost(500) == 0
    assert lost(600) == LOST_MAX * LOST_KEY, "400 are left, and 500 would have been"


def test_a_gpu_that_is_used_up_comes_before_one_that_is_opened() -> None:
    nodes = [node(f"n{number}", gpus=1, cpu_milli=32_000) for number in range(8)]
    fleet = cluster(*nodes)
    mix = fleet.market("a100").mix
    while not mix.version:
        mix.note(gang_of(shared(500)), placed=True)

    assert where(fleet, 500) == where(fleet, 500)
