"""Moves tried out and taken back; a place that is taken by now is not taken again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.cluster.tenants import Running, Tenants
from shared.core.model import value
from shared.core.model.nouns import Placement, PodSet
from shared.core.placement.place import place
from shared.core.preemption.defragmentation.rehearsal import Move, MoveRehearsal
from shared.core.scoring.cluster import Cluster
from tests.support import placing

KINDS = {
    "whole": placing.pods(placing.whole(1), cpu_milli=1500, memory_mib=10),
    "share": placing.pods(placing.share(400, 40), cpu_milli=1500, memory_mib=10),
    "slice": placing.pods(placing.mig("1g.10gb+me"), cpu_milli=1500, memory_mib=10),
    "cpu": placing.pods(cpu_milli=1500, memory_mib=10),
}


def moved_once(kind: str) -> tuple[Cluster, MoveRehearsal, Move]:
    """A pod on one of two nodes, and a move of it to the other, taken back."""
    mig = (0,) if kind == "slice" else ()
    fleet = placing.cluster(
        *(
            placing.node(f"n{at}", gpus=1, mig=mig, cpu_milli=2000, memory_mib=20)
            for at in range(2)
        )
    )
    workload = placing.workload(KINDS[kind])
    answer = place(fleet, placing.request(workload))
    assert isinstance(answer, Placement)
    running = Running(workload=workload, placement=answer)
    rehearsal = MoveRehearsal(fleet, Tenants([running]))
    held = fleet.nodes[answer.pods[0].node]
    assert held.inventory is not None
    fleet.put_node(value.replace(held.inventory, cordoned=True))
    move = rehearsal.move(running)
    assert move is not None
    rehearsal.rollback()
    assert {pod.node for pod in (*move.from_pods, *move.to_pods)} == {"n0", "n1"}
    return fleet, rehearsal, move


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_is_repeated_to_the_same_place_and_taken_back(kind: str) -> None:
    fleet, rehearsal, move = moved_once(kind)
    before = fleet.digest()

    assert rehearsal.repeat(move)
    assert fleet.digest() != before
    assert not rehearsal.repeat(replace(move, from_pods=move.to_pods))

    rehearsal.rollback()
    assert fleet.digest() == before


@pytest.mark.parametrize(
    "taken",
    [
        placing.pods(cpu_milli=1500),
        placing.pods(memory_mib=15),
        placing.pods(placing.share(700, 1)),
        placing.pods(placing.share(10, placing.A100_MIB)),
        placing.pods(placing.whole(1)),
    ],
)
def test_a_place_without_the_cpu_memory_or_gpu_by_now_is_refused(taken: PodSet) -> None:
    fleet, rehearsal, move = moved_once("share")
    assert isinstance(place(fleet, placing.request(placing.workload(taken))), Placement)
    before = fleet.digest()

    assert not rehearsal.repeat(move)
    assert fleet.digest() == before


def test_a_place_on_a_node_that_takes_no_work_any_more_is_refused() -> None:
    fleet, rehearsal, move = moved_once("cpu")
    fleet.set_gpu_health(move.to_pods[0].node, -1, False)

    assert not rehearsal.repeat(move)
