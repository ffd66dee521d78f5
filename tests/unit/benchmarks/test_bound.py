"""The bound is one: above every way to place, and equal to the best where that is known."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest
from ortools.linear_solver import pywraplp

from tests.benchmarks.bound import allocation_bound_percent, best_pattern
from tests.benchmarks.openb import TraceNode, TracePod, load_nodes, load_pods
from tests.benchmarks.packing import POINTS, bound, bound_line

DATA = Path(os.environ.get("MUSTER_DATA", "../shared/data")) / "openb"


def a_node(gpus: int = 1, cpu_milli: int = 10_000, model: str = "A") -> TraceNode:
    return TraceNode(name="n", cpu_milli=cpu_milli, memory_mib=1000, gpus=gpus, model=model)


def a_pod(milli: int = 1000, gpus: int = 1, cpu_milli: int = 0, *models: str) -> TracePod:
    return TracePod(cpu_milli=cpu_milli, memory_mib=1, gpus=gpus, milli=milli, models=models)


@pytest.mark.parametrize(
    ("nodes", "pods", "percent"),
    [
        ([a_node()], [], 0),
        ([a_node()], [a_pod(600), a_pod(600)], 60),
        ([a_node(2)], [a_pod(600), a_pod(600), a_pod(400), a_pod(300)], 95),
        ([a_node(8)], [a_pod(gpus=8), a_pod()], 100),
        ([a_node(4), a_node(4)], [a_pod(gpus=8)], 0),
        ([a_node(2)], [a_pod(1000, 1, 8_000), a_pod(1000, 1, 2_000)], 100),
        ([a_node(1, 1_000)], [a_pod(1000, 1, 2_000), a_pod(500, 1, 1_000)], 50),
        ([a_node(2)], [a_pod(1000, 1, 8_000)] * 2, 62.5),
        ([a_node(2)], [replace(a_pod(), memory_mib=800)] * 2, 62.5),
        ([a_node(model="A"), a_node(model="B")], [a_pod(1000, 1, 0, "A")] * 2, 50),
    ],
)
def test_what_cannot_be_placed_does_not_count(
    nodes: list[TraceNode], pods: list[TracePod], percent: float
) -> None:
    assert allocation_bound_percent(nodes, pods) == pytest.approx(percent)


def test_what_was_taken_before_stays_whatever_it_wastes() -> None:
    share, whole, nodes = a_pod(600), a_pod(), [a_node(2)]
    pods = [share, share, whole, whole]

    assert allocation_bound_percent(nodes, pods) == pytest.approx(100)
    assert allocation_bound_percent(nodes, pods, Counter([share])) == pytest.approx(80)
    assert allocation_bound_percent(nodes, pods, Counter([share] * 2)) == pytest.approx(60)


def test_patterns_are_found_for_what_must_be_placed() -> None:
    pods = [a_pod(600), a_pod(400)]

    assert allocation_bound_percent([a_node()], pods, Counter(pods)) == pytest.approx(100)


def test_it_is_never_below_the_best_placement_by_brute_force() -> None:
    draw = Random(7)
    for _ in range(40):
        nodes = [a_node(draw.choice((1, 2)), draw.choice((4_000, 9_000))) for _ in range(2)]
        pods = [
            a_pod(draw.choice((1000, 810, 470, 320)), 1, draw.choice((1_000, 3_000, 5_000)))
            for _ in range(4)
        ]
        percent = allocation_bound_percent(nodes, pods)
        assert percent >= best_by_brute_force(nodes, pods) - 1e-6


def best_by_brute_force(nodes: list[TraceNode], pods: list[TracePod]) -> float:
    gpus = [(number, gpu) for number, node in enumerate(nodes) for gpu in range(node.gpus)]
    best = 0
    for chosen in product([None, *gpus], repeat=len(pods)):
        placed = [(pod, at) for pod, at in zip(pods, chosen, strict=True) if at is not None]
        fits = all(
            sum(pod.milli for pod, where in placed if where == gpu) <= 1000 for gpu in gpus
        ) and all(
            sum(pod.cpu_milli for pod, where in placed if where[0] == number) <= node.cpu_milli
            for number, node in enumerate(nodes)
        )
        if fits:
            best = max(best, sum(pod.milli for pod, _ in placed))
    return best / 10 / len(gpus)


def test_the_best_pattern_is_the_dearest_that_fits() -> None:
    assert best_pattern({470: 5.0, 320: 3.0, 810: 8.0}) == (10.0, {470: 2})
    assert best_pattern({470: 5.0, 320: 3.5, 810: 8.0}) == (10.5, {320: 3})
    assert best_pattern({810: 1.0}) == (1.0, {810: 1})


def test_a_program_that_is_not_solved_leaves_its_point_without_a_bound_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solve, solved = pywraplp.Solver.Solve, 0

    def fail_once(solver: pywraplp.Solver) -> int:
        nonlocal solved
        solved += 1
        return int(pywraplp.Solver.ABNORMAL) if solved == 1 else int(solve(solver))

    monkeypatch.setattr(pywraplp.Solver, "Solve", fail_once)
    nodes, pods = [a_node(100)], [a_pod(500), a_pod(100)] * 10

    bounds = bound(nodes, pods, [1, 2])

    assert [str(point) for point in POINTS] == list(bounds)
    assert [None] == [each for each in bounds.values() if not each]
    assert bounds["80"] is None
    assert bound_line(bounds).startswith("bound       no bound  ")
    assert 1 == bound_line(bounds).count("no bound")


@pytest.mark.skipif(not DATA.exists(), reason="the traces are not shipped")
def test_on_openb_the_bound_is_that_of_the_study() -> None:
    nodes = load_nodes(DATA / "openb_node_list_gpu_node.csv.gz")
    pods = load_pods(DATA / "openb_pod_list_default.csv.gz")

    bounds = bound(nodes, pods, [42])

    assert bounds["100"] == pytest.approx(96.89, abs=0.1)
    assert bounds["80"] == pytest.approx(80.0, abs=0.1)
