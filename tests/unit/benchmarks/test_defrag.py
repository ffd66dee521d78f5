"""The measures that plans of moves and robust packing are judged by."""

from __future__ import annotations

import pytest

from shared.core.model.nouns import Placement
from shared.core.placement.place import place
from shared.core.preemption.defragmentation.defragment import Plan, defragment
from tests.benchmarks.defrag import compared, counted
from tests.benchmarks.fragmented import Fragmented, fragmented, whole_nodes
from tests.benchmarks.openb import TraceNode, TracePod
from tests.benchmarks.robustness import all_of, failing, renamed, start
from tests.benchmarks.robustness_orders import NamedPod, changed_mix

NODES = [
    TraceNode(name=f"n{at}", cpu_milli=96_000, memory_mib=1 << 19, gpus=8, model="G2")
    for at in range(6)
]
PODS = [
    TracePod(cpu_milli=cpu_milli, memory_mib=1024, gpus=1, milli=milli)
    for cpu_milli, milli in ((4000, 1000), (8000, 1000), (4000, 470), (2000, 810))
]


@pytest.fixture
def state() -> Fragmented:
    return fragmented(NODES, PODS, 7)


def test_the_optimum_is_not_above_our_plan_nor_below_what_counting_allows(
    state: Fragmented,
) -> None:
    pytest.importorskip("ortools")
    from tests.benchmarks.defrag_optimum import fewest_moves  # noqa: PLC0415  # optional extra

    request = whole_nodes(0, 1)
    assert not isinstance(place(state.cluster, request), Placement)
    ours = defragment(state.cluster, state.running.values(), request)
    best = fewest_moves(state, request.workload.spec.pod_sets[0], 10.0)

    assert isinstance(ours, Plan)
    assert best.moves is not None
    assert best.proven
    assert counted(state, 1) <= best.moves <= len(ours.moves)
    state.carry_out(ours)
    assert place(state.cluster, request) == ours.placement


def test_only_instances_that_both_solve_are_compared() -> None:
    row = {"proven": True, "cp_sat_bound": 4}
    found = compared(
        [
            row | {"moves": 6, "cp_sat_moves": 5},
            row | {"moves": None, "cp_sat_moves": 3},
            row | {"moves": 2, "cp_sat_moves": None},
        ]
    )

    assert found["ratio"] == 1.2
    assert found["ratio_to_bound"] == 1.5
    assert (found["only_by_cp_sat"], found["only_by_muster"]) == (1, 1)


def test_a_run_whose_ledger_differs_from_what_was_placed_is_found() -> None:
    run = start(NODES, 7)
    all_of(run, PODS * 8)
    run.live.popitem()

    with pytest.raises(AssertionError):
        run.check()


def test_nodes_may_fail_and_return_and_names_be_exchanged() -> None:
    pods = [
        NamedPod(
            cpu_milli=pod.cpu_milli,
            memory_mib=pod.memory_mib,
            gpus=pod.gpus,
            milli=pod.milli,
            number=number,
        )
        for number, pod in enumerate(PODS * 16)
    ]

    assert failing(start(NODES, 7), pods, 7) > 80
    assert sorted(changed_mix(pods, 7), key=lambda pod: pod.number) == pods
    exchanged = renamed(NODES, NODES[::-1])
    assert [node.name for node in exchanged] == ["n5", "n4", "n3", "n2", "n1", "n0"]
