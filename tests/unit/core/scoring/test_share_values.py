"""What a rest of a shared GPU is worth, and that shares go where nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from shared.core.model.demand import gang_of
from shared.core.model.nouns import Placement, Workload
from shared.core.placement.place import place
from shared.core.scoring import share_values
from shared.core.scoring.cluster import Cluster
from shared.core.scoring.mix import PodClass
from shared.core.scoring.share_values import SIZES_MAX, STEPS, rest_values
from tests.support.placing import cluster, node, pods, request, share, whole, workload

OPENB = {810: 35, 470: 24, 320: 11, 650: 8, 230: 5, 460: 4}
"""Shares of the openb trace by milli-GPU, in percent."""

WHOLE_TRACE = {5: 8, 11: 29, 16: 128, 22: 100, 23: 225, 27: 7, 29: 1, 32: 510, 33: 10, 35: 16}
WHOLE_TRACE |= {37: 71, 44: 5, 46: 218, 47: 1187, 48: 33, 55: 115, 59: 122, 65: 383, 81: 1713}
"""Its shares in hundredths of a GPU, as a mix counts them after 25,000 pods."""


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


def test_prices_begin_near_the_optimum_so_that_few_patterns_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = []
    dearest = share_values._dearest

    def counted(sizes: Sequence[int], prices: Sequence[float]) -> tuple[list[float], list[int]]:
        searches.append(prices)
        return dearest(sizes, prices)

    monkeypatch.setattr(share_values, "_dearest", counted)
    share_values._values.cache_clear()

    rest_values(counts_of({10 * size: count for size, count in WHOLE_TRACE.items()}))

    assert len(searches) <= 12, "33 from patterns of one size alone"


def teach(fleet: Cluster, asked: dict[int, int], whole_gpus: int = 0) -> None:
    """The shares by milli, and so many whole GPUs beside them."""
    mix = fleet.packing("a100").mix
    while not mix.version:
        for milli, count in asked.items():
            for _ in range(count):
                mix.note(gang_of(shared(milli)), placed=True)
        for _ in range(whole_gpus):
            mix.note(gang_of(workload(pods(whole(1), cpu_milli=8000))), placed=True)


def shared(milli: int) -> Workload:
    return workload(pods(share(milli, 10), cpu_milli=1000))


def where(fleet: Cluster, milli: int) -> str:
    answer = place(fleet, request(shared(milli)))
    assert isinstance(answer, Placement), answer
    return answer.pods[0].node


def fleet_with(
    held: dict[str, int], *free: str, asked: dict[int, int] = OPENB, whole_gpus: int = 0
) -> Cluster:
    """One GPU on each node, with a share of so many milli on it, or free."""
    nodes = {name: node(name, gpus=1, cpu_milli=32_000) for name in (*held, *free)}
    fleet = cluster(*nodes.values())
    teach(fleet, asked, whole_gpus)
    for name, milli in held.items():
        there = place(cluster(nodes[name]), request(shared(milli)))
        assert isinstance(there, Placement)
        fleet.charge(shared(milli).team, there.pods, shared(milli).spec.pod_sets)
    return fleet


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_a_share_goes_where_the_rest_can_still_be_used_up(first: str, second: str) -> None:
    fleet = fleet_with({first: 470, second: 650}, whole_gpus=50)

    assert where(fleet, 320) == second, "470 + 320 would leave 210, which nobody takes"
    assert where(fleet, 460) == first


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_of_gpus_on_which_nothing_is_lost_one_that_stays_useful_is_taken(
    first: str, second: str
) -> None:
    fleet = fleet_with({first: 650, second: 320}, whole_gpus=50)

    assert where(fleet, 320) == second, "650 + 320 would use up the GPU"
    assert where(fleet, 320) != where(fleet, 320), "two places are left, and both are taken"


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_gpu_is_opened_only_when_no_shared_one_is_as_good_but_for_what_is_lost(
    names: str,
) -> None:
    fleet = fleet_with({names[0]: 260}, names[1], asked={480: 3, 740: 2})

    assert where(fleet, 480) == names[0], "740 would fit there, but no GPU is broken for 480"
