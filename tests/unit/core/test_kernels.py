"""Back-ends of the kernels: which is taken, what each decides, and what it gives back."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from shared.core.demand import gang_of
from shared.core.feasibility import permitted
from shared.core.kernels import BackEnd, back_end, jit
from shared.core.kernels.arrays import (
    ANYWHERE,
    GANG,
    HELD_NODE,
    NONE,
    PLACE,
    PODS,
    RELEASE,
    REQUEST_COLUMNS,
    SHAPE,
    SLOT,
    WHAT,
    WIDEST,
    Ints,
)
from shared.core.kernels.compiled import Compiled
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.reference import Reference
from shared.core.kernels.scope import decides
from shared.core.model import Level, Slice, Spread
from tests.support import placing
from tests.support.kernel_fleets import learned_fleet
from tests.support.kernel_story import FLAVOR


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


def requests_of(*rows: tuple[int, int, int]) -> Ints:
    """(what, slot, shape) of one pod each."""
    requests = np.zeros((len(rows), REQUEST_COLUMNS), dtype=np.int64)
    requests[:, [WHAT, SLOT, SHAPE]] = rows
    requests[:, PODS] = 1
    return requests
