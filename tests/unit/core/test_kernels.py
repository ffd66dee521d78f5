"""The parts of the kernels, each against something simpler."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from shared.core.cells import REFUSED, TIE
from shared.core.demand import gang_of
from shared.core.feasibility import permitted
from shared.core.kernels import BackEnd, back_end, jit
from shared.core.kernels import scores as kernel_scores
from shared.core.kernels.arrays import (
    ANYWHERE,
    GANG,
    HELD_NODE,
    NONE,
    PLACE,
    PODS,
    RELEASE,
    REQUEST_COLUMNS,
    SCORED_AS,
    SHAPE,
    SLOT,
    WHAT,
    WIDEST,
    Ints,
)
from shared.core.kernels.bits import lowest
from shared.core.kernels.compiled import Compiled
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.indexes import (
    BITS,
    CONDITIONS_USED,
    EPOCH,
    LINES_USED,
    OVERFLOW,
    new_index,
    with_more_cells,
)
from shared.core.kernels.reference import Reference
from shared.core.kernels.scope import decides
from shared.core.kernels.sorting import position, sort
from shared.core.kernels.tree import (
    AMOUNTS,
    KEY,
    LEFT,
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
from shared.core.mix import DemandMix
from shared.core.model import Level, Slice, Spread
from shared.core.waste import waste_of
from tests.support import placing
from tests.support.kernel_story import any_workload

FLAVOR = "a100"


def learned_fleet(*nodes: object, seed: int = 1) -> Fleet:
    """A fleet with the tables of some mix."""
    fleet = Fleet(placing.cluster(*nodes), FLAVOR)  # type: ignore[arg-type]
    draw, mix = Random(seed), DemandMix()
    for _ in range(200):
        mix.note(gang_of(any_workload(draw)), placed=True)
    fleet.learn(waste_of(mix.counts, fleet.kinds))
    return fleet


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


def test_without_numba_the_reference_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = learned_fleet(placing.node("a"))
    assert isinstance(back_end(fleet), Compiled)

    monkeypatch.setattr("shared.core.kernels.IS_COMPILED", False)

    assert isinstance(back_end(fleet), Reference)


@pytest.mark.parametrize(
    "changes",
    [
        {"demands": 2},
        {"spread": Spread.REQUIRED},
        {"slices": (Slice(level=Level.RACK, pods=2),)},
        {"leader": True},
        {"aligned": True},
        {"min_count": 3},
        {"gpus": 0, "milli": 500},
        {"gpus": 0},
        {"gpus": 0, "profile": "1g.5gb", "instances": 1},
    ],
)
def test_what_only_the_core_decides_is_told_apart(changes: dict[str, Any]) -> None:
    gang = gang_of(placing.workload(placing.pods(placing.whole(2), 4)))
    (kinds,) = permitted(placing.cluster(placing.node("a")), gang, gang.demands[0], FLAVOR)
    assert decides(gang, (kinds,))
    assert not decides(gang, (kinds, kinds))
    assert not decides(gang, ())

    if "spread" in changes:
        changed = replace(gang, **changes)
    elif "demands" in changes:
        changed = replace(gang, demands=gang.demands * changes["demands"])
    else:
        changed = replace(gang, demands=(replace(gang.demands[0], **changes),))

    assert not decides(changed, (kinds,))


def test_a_single_pod_may_have_any_form_without_mig() -> None:
    for gpu in (placing.whole(0), placing.whole(8), placing.share(300)):
        gang = gang_of(placing.workload(placing.pods(gpu)))
        assert decides(gang, ((),))


def test_other_code_is_another_edition() -> None:
    before = jit.edition()

    jit._compiled.append(lambda: 1)
    try:
        assert before != jit.edition()
    finally:
        jit._compiled.pop()
    assert before == jit.edition()


def test_nodes_with_too_many_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match="16 GPUs"):
        Fleet(placing.cluster(placing.node("a", gpus=16)), FLAVOR)


@pytest.mark.parametrize("back_end_class", [Compiled, Reference])
def test_a_gang_that_does_not_fit_leaves_nothing(
    back_end_class: type[Compiled | Reference],
) -> None:
    nodes = [placing.node(f"n{at}", rack=f"r{at // 2}") for at in range(4)]
    fleet = learned_fleet(*nodes)
    decider = back_end_class(fleet)
    (demand,) = gang_of(placing.workload(placing.pods(placing.whole(8), 5))).demands
    before = fleet.state.nodes.copy()
    request = np.zeros((1, REQUEST_COLUMNS), dtype=np.int64)
    request[0, [WHAT, SLOT, SHAPE]] = GANG, 0, fleet.shape(demand, fleet.kinds)
    request[0, [PODS, WIDEST, ANYWHERE]] = 5, NONE, 1

    decider.run(request)

    assert np.array_equal(before, fleet.state.nodes)
    assert (fleet.state.held[:5, HELD_NODE] == NONE).all()


def test_more_shapes_teams_cells_and_slots_than_there_was_room_for() -> None:
    nodes = [placing.node(f"n{at}", cpu_milli=256_000) for at in range(40)]
    fleets = [learned_fleet(*nodes) for _ in range(2)]
    deciders: list[BackEnd] = [Compiled(fleets[0]), Reference(fleets[1])]
    draw = Random(3)
    for slot in range(1100):
        milli = draw.randint(1, 400)
        asked = placing.pods(placing.share(milli), cpu_milli=draw.choice((0, 100, 2000)))
        (demand,) = gang_of(placing.workload(asked)).demands
        team = f"team-{draw.randrange(60)}"
        for fleet, decider in zip(fleets, deciders, strict=True):
            fleet.make_slots(slot + 1)
            request = np.zeros((1, REQUEST_COLUMNS), dtype=np.int64)
            request[0, :5] = PLACE, slot, fleet.shape(demand, fleet.kinds), fleet.team(team), 1
            decider.run(request)

    assert len(fleets[0].shapes) > 256
    assert np.array_equal(fleets[0].state.held[:1100], fleets[1].state.held[:1100])
    assert (fleets[0].state.held[:1100, HELD_NODE] != NONE).sum() > 700


def test_the_tightest_of_many_racks_is_found() -> None:
    draw = Random(5)
    nodes = [placing.node(f"n{at}", rack=f"r{at // 2}") for at in range(400)]
    fleets = [learned_fleet(*nodes) for _ in range(2)]
    deciders: list[BackEnd] = [Compiled(fleets[0]), Reference(fleets[1])]
    slot = 0
    for _ in range(260):
        pods, gpus = draw.randint(2, 9), draw.choice((1, 2, 3))
        (demand,) = gang_of(placing.workload(placing.pods(placing.whole(gpus), pods))).demands
        for fleet, decider in zip(fleets, deciders, strict=True):
            fleet.make_slots(slot + pods)
            request = np.zeros((1, REQUEST_COLUMNS), dtype=np.int64)
            request[0, [WHAT, SLOT, SHAPE]] = GANG, slot, fleet.shape(demand, fleet.kinds)
            request[0, [PODS, WIDEST]] = pods, 2
            decider.run(request)
        slot += pods

    first, second = (fleet.state.held[:slot] for fleet in fleets)
    assert np.array_equal(first[:, :2], second[:, :2])
    assert len(fleets[0].state.domains) == 201


@pytest.mark.parametrize("back_end_class", [Compiled, Reference])
def test_marks_stand_inside_each_other_and_a_long_log_is_rolled_back_whole(
    back_end_class: type[Compiled | Reference],
) -> None:
    fleet = learned_fleet(placing.node("a"), placing.node("b", gpus=4))
    decider = back_end_class(fleet)
    (demand,) = gang_of(placing.workload(placing.pods(placing.whole(1)))).demands
    shape = fleet.shape(demand, fleet.kinds)
    fleet.make_slots(12)
    decider.run(requests_of((PLACE, 0, shape)))
    before = [array.copy() for array in (fleet.state.nodes, fleet.state.gpus, fleet.state.held)]

    outer = decider.mark()
    decider.run(requests_of(*((PLACE, slot, shape) for slot in range(1, 7))))
    between, inner = fleet.state.nodes.copy(), decider.mark()
    for _ in range(150):
        decider.run(requests_of(*((RELEASE, slot, shape) for slot in range(1, 7))))
        decider.run(requests_of(*((PLACE, slot, shape) for slot in range(1, 7))))
    decider.roll_back(inner)
    assert np.array_equal(between, fleet.state.nodes)
    decider.roll_back(outer)

    after = (fleet.state.nodes, fleet.state.gpus, fleet.state.held)
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])
    assert (after[2][1:, HELD_NODE] == NONE).all()
    assert after[2][0, HELD_NODE] == before[2][0, HELD_NODE] != NONE


@pytest.mark.parametrize("back_end_class", [Compiled, Reference])
def test_what_is_not_held_is_not_given_back(
    back_end_class: type[Compiled | Reference],
) -> None:
    fleet = learned_fleet(placing.node("a"))
    decider = back_end_class(fleet)
    (demand,) = gang_of(placing.workload(placing.pods(placing.whole(1), cpu_milli=1000))).demands
    shape = fleet.shape(demand, fleet.kinds)
    before, gpus = fleet.state.nodes.copy(), fleet.state.gpus.copy()

    decider.run(requests_of((PLACE, 0, shape)))
    assert not np.array_equal(before, fleet.state.nodes)
    decider.run(requests_of(*[(RELEASE, 0, shape)] * 2))

    assert np.array_equal(before, fleet.state.nodes)
    assert np.array_equal(gpus, fleet.state.gpus)


@pytest.mark.parametrize("back_end_class", [Compiled, Reference])
def test_a_gang_that_no_rack_has_the_cpu_for_goes_nowhere(
    back_end_class: type[Compiled | Reference],
) -> None:
    nodes = [placing.node(f"n{at}", rack=f"r{at // 2}", cpu_milli=10_000) for at in range(4)]
    fleet = learned_fleet(*nodes)
    asked = placing.pods(placing.whole(1), 3, cpu_milli=6_000)
    (demand,) = gang_of(placing.workload(asked)).demands
    request = requests_of((GANG, 0, fleet.shape(demand, fleet.kinds)))
    request[0, [PODS, WIDEST]] = 3, 2
    before = fleet.state.nodes.copy()

    back_end_class(fleet).run(request)

    assert np.array_equal(before, fleet.state.nodes)
    assert (fleet.state.held[:3, HELD_NODE] == NONE).all()


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


def requests_of(*rows: tuple[int, int, int]) -> Ints:
    """(what, slot, shape) of one pod each."""
    requests = np.zeros((len(rows), REQUEST_COLUMNS), dtype=np.int64)
    requests[:, [WHAT, SLOT, SHAPE]] = rows
    requests[:, PODS] = 1
    return requests


def test_what_a_compiled_back_end_keeps_beside_the_state_grows_with_the_fleet() -> None:
    small, large = (
        Compiled(learned_fleet(*(placing.node(f"n{at}") for at in range(count)))).index
        for count in (1, 200)
    )

    assert small.behind.size < large.behind.size
