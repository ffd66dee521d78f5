"""The MIG baselines are those of the table, and Muster is above the strongest of them."""

from __future__ import annotations

import statistics
from itertools import product
from math import factorial, prod

import pytest

from tests.benchmarks.baselines.mig_policies import (
    SIZES,
    TablePolicy,
    best_fit_high,
    legal_starts,
    slices_of,
)
from tests.benchmarks.mig import (
    COLUMNS,
    EXPECTED,
    MIXES,
    Cell,
    expected,
    requests_of,
    run,
    unfragmented,
)

GPUS, REQUESTS, SEEDS = 100, 20_000, (42, 43)
TABLE = [Cell(mix, load) for mix, load in EXPECTED]


def measured(policy: str, cell: Cell) -> tuple[float, float]:
    runs = [run(policy, cell, GPUS, REQUESTS, seed) for seed in SEEDS]
    return statistics.fmean(x for x, _ in runs), statistics.fmean(x for _, x in runs)


@pytest.mark.parametrize("cell", TABLE, ids=str)
def test_our_baselines_are_near_the_table(cell: Cell) -> None:
    """Within what seeds make of it: means over other seeds differ by as much."""
    for policy in COLUMNS:
        count, slices = measured(policy, cell)
        known = expected(cell)[policy]
        assert abs(count - known[0]) <= 0.8, policy
        if (policy, cell.mix) != ("fgd", "small"):
            # There the table's figure lies 2.5 points below ours, its acceptance does not.
            assert abs(slices - known[1]) <= 1.5, policy


@pytest.mark.parametrize("cell", [Cell("uniform", 1.0), Cell("bimodal", 1.0)], ids=str)
def test_muster_that_learns_the_mix_is_above_fgd_that_knows_it_and_above_mfi(cell: Cell) -> None:
    muster, fgd, mfi = (measured(policy, cell) for policy in ("muster", "fgd", "mfi"))

    assert muster[1] >= fgd[1]
    assert muster[0] >= fgd[0] - 0.1
    assert muster[0] >= mfi[0] + 0.3
    assert muster[1] >= mfi[1] + 0.5


def test_requests_ask_for_the_load_in_the_shares_of_the_mix() -> None:
    requests = requests_of(Cell("small", 0.85), GPUS, REQUESTS, 42)

    hours = requests[-1].at
    asked = sum(SIZES[each.profile] * (each.until - each.at) for each in requests)
    assert 0.83 < asked / hours / (8 * GPUS) < 0.87
    assert 0.34 < sum(each.profile == 0 for each in requests) / REQUESTS < 0.36
    assert requests == requests_of(Cell("small", 0.85), GPUS, REQUESTS, 42)


def test_without_positions_acceptance_is_that_of_the_product_form() -> None:
    """One GPU by summing over everything that can run together (the recursion's origin)."""
    cell = Cell("bimodal", 1.0)
    shares = MIXES[cell.mix]
    mean = sum(share * size for share, size in zip(shares, SIZES, strict=True))
    weights: dict[int, float] = {}
    for running in product(*(range(8 // size + 1) for size in SIZES)):
        used = sum(count * size for count, size in zip(running, SIZES, strict=True))
        terms = zip(running, shares, strict=True)
        weight = prod((8 * share / mean) ** count / factorial(count) for count, share in terms)
        if used <= 8:
            weights[used] = weights.get(used, 0.0) + weight
    room = [sum(weight for used, weight in weights.items() if used + size <= 8) for size in SIZES]

    accepted = sum(share * each for share, each in zip(shares, room, strict=True))

    assert unfragmented(cell, 1)[0] == pytest.approx(100 * accepted / sum(weights.values()))


def test_a_policy_table_prefers_the_fullest_gpu_that_has_a_start() -> None:
    policy = TablePolicy(best_fit_high, 2)
    first = policy.place(3)
    assert first is not None
    assert (first.gpu, first.mask) == (0, 0xF0)
    second = policy.place(0)
    assert second is not None
    assert (second.gpu, second.mask) == (0, 0b1000)
    assert policy.place(5) is not None
    assert policy.place(5) is None

    policy.release(first)

    assert policy.place(4) is None
    third = policy.place(3)
    assert third == first
    assert legal_starts(0xF0, 3) == [0]
    assert slices_of(4, 0) == 0x0F
