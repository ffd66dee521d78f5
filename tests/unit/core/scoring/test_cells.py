"""Cells of places in equal condition: bounds may be out of date, the answer never is."""

from __future__ import annotations

import numpy as np

from shared.core.scoring.cells import RANK_SHIFT, TIE, Cells, Member
from tests.support.placing import cluster, node


def a_member(rank: int, *, cpu_milli: int = 8000, memory_mib: int = 1000, gpu: int = -1) -> Member:
    fleet = cluster(node("n", cpu_milli=cpu_milli, memory_mib=memory_mib))
    return (rank << RANK_SHIFT, gpu, fleet.nodes["n"])


def cells_of(*members: tuple[int, Member]) -> Cells:
    cells = Cells()
    for number, member in members:
        cells.put(number, member)
    return cells


def scores(*each: int) -> np.ndarray:
    return np.array(each, dtype=np.int64) * TIE


def test_within_a_cell_the_least_rank_that_has_the_room_is_found() -> None:
    small, second, third = a_member(1, cpu_milli=1000), a_member(2), a_member(3)
    cells = cells_of((0, third), (0, small), (0, second))

    assert cells.best(scores(7), 4000, 0) == (7 * TIE, second)
    assert cells.best(scores(7), 4000, 0, exclude=[second[2]]) == (7 * TIE, third)
    assert cells.best(scores(7), 9000, 0) is None


def test_a_member_that_leaves_is_not_found_again() -> None:
    first, second, third = a_member(1), a_member(2), a_member(3)
    cells = cells_of((0, first), (0, second), (0, third), (1, a_member(9)))

    cells.take(0, second)
    assert cells.best(scores(5, 1), 0, 0) == (5 * TIE, first)
    cells.take(0, first)
    assert cells.best(scores(5, 1), 0, 0) == (5 * TIE, third)
    cells.take(0, third)
    assert cells.best(scores(5, 1), 0, 0) == (TIE, (9 << RANK_SHIFT, -1, cells._members[1][0][2]))


def test_a_cell_is_as_early_as_the_first_of_those_who_are_left() -> None:
    first, last, between = a_member(1), a_member(5), a_member(3)
    cells = cells_of((0, first), (0, last), (1, between))
    assert cells.best(scores(7, 7), 0, 0) == (7 * TIE, first)

    cells.take(0, first)

    assert cells.best(scores(7, 7), 0, 0) == (7 * TIE, between)


def test_a_cell_whose_members_lost_memory_is_read_in_vain_only_once() -> None:
    lost, other = a_member(1), a_member(2)
    cells = cells_of((0, lost), (1, other))
    lost[2].free_memory_mib = 10

    assert cells.best(scores(9, 1), 0, 500) == (TIE, other)
    assert cells._memory_max[0] == 10

    lost[2].free_memory_mib = 1000
    cells.raise_bounds(0, lost[2])
    assert cells.best(scores(9, 1), 0, 500) == (9 * TIE, lost)


def test_of_two_gpus_of_one_node_in_cells_of_one_score_the_first_is_taken() -> None:
    node_of_both = a_member(1)[2]
    later, sooner = (1 << RANK_SHIFT, 5, node_of_both), (1 << RANK_SHIFT, 2, node_of_both)
    cells = cells_of((0, later), (1, sooner))

    assert cells.best(scores(4, 4), 0, 0) == (4 * TIE, sooner)
    assert cells.best(scores(4, 4), 0, 0, accept=lambda _, gpu: gpu == 5) == (4 * TIE, later)


def test_a_cell_that_ends_leaves_the_bounds_and_ranks_of_the_others_as_they_are() -> None:
    first, last, rich = a_member(1), a_member(3), a_member(2, cpu_milli=9000, memory_mib=9000)
    cells = cells_of((0, first), (1, last), (2, rich))

    cells.take(0, first)
    of_room = cells.best(scores(1, 1, 1), 8500, 5000)
    of_rank = cells.best(scores(9, 1, 1), 0, 0)
    cells.take(2, rich)
    none = cells.best(scores(9, 1, 9), 0, 5000)
    cells.take(1, last)

    assert ((TIE, rich), (TIE, rich), None) == (of_room, of_rank, none)
    assert cells.best(scores(1, 1, 1), 0, 0) is None
    assert [] == list(cells.of_score(scores(1, 1, 1), TIE))


def test_members_of_a_score_come_in_the_order_of_their_conditions() -> None:
    first, second, other = a_member(9), a_member(1), a_member(5)
    cells = cells_of((2, second), (0, first), (1, other))

    assert [first, second] == list(cells.of_score(scores(7, 6, 7), 7 * TIE))


def test_a_cell_read_in_vain_for_want_of_cpu_is_passed_over_until_a_member_comes() -> None:
    cells = cells_of((0, a_member(1, cpu_milli=1000)), (1, a_member(2)))

    assert cells.best(scores(7, 1), 4000, 0, accept=None) is not None
    rich = a_member(3, cpu_milli=5000)
    cells.put(0, rich)

    assert cells.best(scores(7, 1), 4000, 0) == (7 * TIE, rich)
