"""The parts of the kernels, each against something simpler."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from shared.core.cells import REFUSED, TIE
from shared.core.demand import gang_of
from shared.core.kernels import scores as kernel_scores
from shared.core.kernels.arrays import (
    SCORED_AS,
)
from shared.core.kernels.bits import lowest
from shared.core.kernels.compiled import Compiled
from shared.core.kernels.indexes import (
    BITS,
    CONDITIONS_USED,
    EPOCH,
    LINES_USED,
    OVERFLOW,
    new_index,
    with_more_cells,
)
from shared.core.kernels.sorting import position, sort
from shared.core.kernels.tree import (
    AMOUNTS,
    COLUMNS,
    KEY,
    LEFT,
    LINE_BYTES,
    MOST,
    NIL,
    RIGHT,
    ROOM,
    change_room,
    first,
    insert,
    new_tree,
    remove,
    set_room,
)
from shared.core.market_scores import score_gpus, score_nodes
from tests.support import placing
from tests.support.kernel_fleets import learned_fleet
from tests.support.kernel_story import any_workload


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_is_a_sorted_list(seed: int) -> None:
    draw, items = Random(seed), 60
    tree, roots = new_tree(items), np.full((2, 1), NIL, dtype=np.int32)
    inside = dict[int, tuple[int, ...]]()
    for _ in range(600):
        item, room = draw.randrange(items), tuple(draw.randrange(5) for _ in range(4))
        if item not in inside:
            tree[item, KEY] = draw.randrange(10)
            set_room(tree, item, room)  # type: ignore[arg-type]
            insert(tree, roots, 1, item)
            inside[item] = room
        elif draw.random() < 0.5:
            change_room(tree, item, room)  # type: ignore[arg-type]
            inside[item] = room
        else:
            remove(tree, roots, 1, item)
            del inside[item]
        order = sorted(inside, key=lambda each: (tree[each, KEY], each))
        need, key = tuple(draw.randrange(5) for _ in range(4)), draw.randrange(10)
        fitting = (
            each
            for each in order
            if tree[each, KEY] >= key
            and all(have >= ask for have, ask in zip(inside[each], need, strict=True))
        )
        assert first(tree, roots[1, 0], key, need) == next(fitting, NIL)  # type: ignore[arg-type]
        for each in inside:
            below = [tree[each, side] for side in (LEFT, RIGHT) if tree[each, side] != NIL]
            bounds = tree[each, MOST : MOST + AMOUNTS]
            assert (bounds >= tree[each, ROOM : ROOM + AMOUNTS]).all()
            assert all((bounds >= tree[each, MOST : MOST + AMOUNTS]).all() for each in below)
    assert roots[0, 0] == NIL


def test_a_search_in_vain_makes_bounds_tight() -> None:
    tree, roots = new_tree(40), np.full((1, 1), NIL, dtype=np.int32)
    for item in range(40):
        set_room(tree, item, (9 if item % 2 else 1, 1, 1, 1))
        insert(tree, roots, 0, item)
    for item in range(1, 40, 2):
        remove(tree, roots, 0, item)

    assert first(tree, roots[0, 0], 0, (5, 1, 1, 1)) == NIL
    assert tree[roots[0, 0], MOST] == 1


def test_every_bit_of_a_word_is_found() -> None:
    assert list(range(BITS)) == [lowest(1 << bit) for bit in range(BITS)]
    assert lowest((1 << 62) + (1 << 7)) == 7


@pytest.mark.parametrize("size", [0, 1, 2, 50, 3000])
def test_sorting_and_searching(size: int) -> None:
    draw = Random(size)
    keys = np.array([draw.randrange(1000) for _ in range(size)], dtype=np.int64)
    expected = sorted(keys.tolist())

    sort(keys, size)

    assert expected == keys.tolist()
    for key in (-1, 0, 500, 1001):
        assert int(np.searchsorted(keys, key)) == position(keys, size, key)


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_market_on_every_condition(seed: int) -> None:
    draw = Random(seed)
    nodes = [
        placing.node("a", cpu_milli=64_000),
        placing.node("b", product="V100", cpu_milli=96_000),
        placing.node("c", gpus=0, cpu_milli=32_000),
    ]
    fleet = learned_fleet(*nodes, seed=seed)
    assert fleet.waste is not None
    # Values in coarse steps, so that much is lost.
    fleet.learn(replace(fleet.waste, rests=fleet.waste.rests // 250 * 250))
    for _ in range(12):
        (demand,) = gang_of(any_workload(draw)).demands
        pod = fleet.state.shapes[fleet.shape(demand, fleet.kinds)]
        allowed = np.ones(3, dtype=np.bool_)
        for rule, kernel, frees, rests, steps in (
            (score_nodes, kernel_scores.node_score, 9, 17, 49),
            (score_gpus, kernel_scores.gpu_score, 101, 5, 25),
        ):
            if rule is score_gpus and not demand.milli:
                continue
            rows = np.array(
                [
                    (draw.randrange(3), draw.randrange(frees), rest, draw.randrange(steps))
                    for rest in range(rests)
                    for _ in range(20)
                ],
                dtype=np.int64,
            )
            wanted = rule(fleet.waste, allowed, rows, demand)
            found = [kernel(fleet.tables, pod, *map(int, row)) for row in rows]
            for want, score in zip(wanted.tolist(), found, strict=True):
                refused = want == REFUSED
                assert (kernel_scores.REFUSED if refused else want // TIE) == score


def test_shapes_that_differ_in_memory_alone_have_one_row_of_scores() -> None:
    fleet = learned_fleet(placing.node("a"))
    demands = [
        gang_of(placing.workload(placing.pods(gpu, cpu_milli=cpu, memory_mib=memory))).demands[0]
        for gpu, cpu, memory in (
            (placing.whole(1), 1000, 64),
            (placing.whole(1), 1000, 128),
            (placing.whole(1), 2000, 64),
            (placing.whole(2), 1000, 64),
            (placing.share(500, 10), 1000, 64),
            (placing.share(500, 20), 1000, 64),
            (placing.share(500, 1 << 20), 1000, 64),
        )
    ]

    shapes = [fleet.shape(demand, fleet.kinds) for demand in demands]

    assert shapes == [0, 1, 2, 3, 4, 5, 6]
    assert fleet.state.shapes[:7, SCORED_AS].tolist() == [0, 0, 2, 3, 4, 4, 6]


@pytest.mark.parametrize(
    ("size", "what"), [(LINES_USED, "lines"), (CONDITIONS_USED, "scores"), (OVERFLOW, "cells")]
)
def test_what_ran_out_is_there_twice_and_all_else_as_before(size: int, what: str) -> None:
    state = learned_fleet(placing.node("a")).state
    index = new_index(state, 1, lines=128, used_lines=32, conditions=256)
    index.sizes[[size, EPOCH]] = {LINES_USED: 128, CONDITIONS_USED: 256, OVERFLOW: 1}[size], 3

    more = with_more_cells(state, index)

    sizes = {name: getattr(index, name).size for name in ("lines", "scores", "cells")}
    grown = {name for name in sizes if getattr(more, name).size > sizes[name]}
    assert grown == {what}
    assert more.sizes[EPOCH] == 3
    assert not more.sizes[[LINES_USED, CONDITIONS_USED, OVERFLOW]].any()


def test_what_a_compiled_back_end_keeps_beside_the_state_grows_with_the_fleet() -> None:
    small, large = (
        Compiled(learned_fleet(*(placing.node(f"n{at}") for at in range(count)))).index
        for count in (1, 200)
    )

    assert small.behind.size < large.behind.size


@pytest.mark.parametrize("items", [1, 7, 1000])
def test_no_row_of_a_tree_lies_in_two_lines_of_the_cache(items: int) -> None:
    tree = new_tree(items)

    assert tree.shape == (items, COLUMNS)
    assert tree.ctypes.data % LINE_BYTES == 0 == tree.strides[0] % LINE_BYTES
    assert tree.flags.c_contiguous
