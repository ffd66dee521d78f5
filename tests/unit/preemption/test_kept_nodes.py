"""Nodes and GPUs that are kept off: for promised starts, for a change of mode, or as shunned."""

from __future__ import annotations

import pytest

from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.preemption.eligibility.plan import NoEviction, Obstacle
from shared.events.nodes import (
    KeptFor,
    NodeCordoned,
    NodeRemoved,
    NodeShunned,
    NodesKept,
    NodeUncordoned,
    NodeUnshunned,
    SwitchingGpu,
)
from tests.support.placement_driver import a_node, a_workload, nominated, reported
from tests.unit.preemption.world import Cell


def test_what_is_owed_takes_a_node_that_is_kept_for_who_borrows():
    cell = Cell(nodes=1)
    cell.queue("owner", 8)
    cell.queue("borrower", 0)
    cell.run("a", "borrower", gpus=8)
    cell.ask("guest", "borrower", gpus=8)
    cell.ask("p", "owner", gpus=8)
    node = cell.driver.placement("a").pods[0].node

    cell.hear(NodesKept(kept=(KeptFor(workload_id="guest", pin=1, nodes=(node,)),)))
    plans = cell.decide(list(cell.handler.due(cell.driver.now_ms)))

    assert [("p", "a")] == [(one.workload_id, one.victims[0].workload_id) for one in plans]


def a_cell_with_a_guest(kept_gpus: int) -> Cell:
    """A borrower has one workload on the node that is kept for its guest, two on the other."""
    cell = Cell(nodes=2)
    cell.queue("owner", 16)
    cell.queue("borrower", 0)
    cell.queue("third", 0)
    cell.run("kept", "borrower", gpus=kept_gpus)
    for name in ("filler", "other"):
        cell.run(name, "borrower", gpus=4)
    cell.ask("guest", "borrower", gpus=8)
    return cell


def keep_node_of(cell: Cell, workload_id: str) -> None:
    node = cell.driver.placement(workload_id).pods[0].node
    cell.hear(NodesKept(kept=(KeptFor(workload_id="guest", pin=1, nodes=(node,)),)))


@pytest.mark.parametrize(
    ("queue", "going"),
    [
        pytest.param("owner", ["kept"], id="what is owed goes where less is lost"),
        pytest.param("third", ["filler", "other"], id="who borrows too leaves it alone"),
    ],
)
def test_nodes_that_are_kept_for_who_borrows_are_looked_at_for_what_is_owed(
    queue: str, going: list[str]
):
    cell = a_cell_with_a_guest(8)
    cell.ask("p", queue, gpus=8)
    keep_node_of(cell, "kept")

    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))

    assert going == [one.workload_id for one in plan.victims]


def test_nobody_goes_for_what_is_owed_where_it_fits_on_a_node_that_is_kept_for_who_borrows():
    cell = a_cell_with_a_guest(2)
    cell.run("more", "borrower", gpus=4)
    cell.hear(nominated(a_workload("p", queue="owner", gpus=2)))
    keep_node_of(cell, "kept")
    planner = cell.handler.planner
    cell.handler.world.refresh()

    answer = planner._searching.search(planner._searching.request("p"), cell.driver.now_ms)

    assert isinstance(answer, NoEviction)
    assert answer.obstacle is Obstacle.FITS
    assert answer.placement is not None


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize(("kept_for", "going"), [("", "b"), ("other", "a"), ("p", "b")])
async def test_nobody_goes_from_a_node_that_is_kept_for_another(
    kept_for: str, going: str, reloaded: bool
):
    cell = Cell(nodes=2)
    cell.queue("owner", 8)
    cell.queue("borrower", 8)
    cell.run("a", "borrower", gpus=8)
    cell.driver.wait(1000)
    cell.run("b", "borrower", gpus=8)
    cell.ask("p", "owner", gpus=8)
    node = cell.driver.placement("b").pods[0].node
    kept = (KeptFor(workload_id=kept_for, pin=1, nodes=(node,)),) if kept_for else ()

    cell.hear(NodesKept(kept=kept))
    if reloaded:
        await cell.reload()
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))

    assert [going] == [one.workload_id for one in plan.victims]


def test_a_gpu_that_changes_its_mode_is_no_room():
    cell = Cell(gpus=2)
    cell.hear(NodesKept(switching=(SwitchingGpu(node="n0", gpu=1),)))
    uses = cell.handler.world.cluster.nodes["n0"].uses
    assert [True, False] == [uses[gpu].usable for gpu in range(2)]

    cell.hear(reported(a_node("n0", gpus=2), generation=2))
    assert [True, False] == [uses[gpu].usable for gpu in range(2)]
    cell.hear(NodesKept())
    assert [True, True] == [uses[gpu].usable for gpu in range(2)]


def test_a_node_that_is_kept_is_kept_when_it_is_reported_again():
    cell = Cell(nodes=2)
    cell.hear(NodesKept(kept=(KeptFor(workload_id="p", pin=2, nodes=("n0", "n9")),)))

    cell.both(reported(a_node("n9")), reported(a_node("n0"), generation=2))

    nodes = cell.handler.world.cluster.nodes
    assert {"n0": 2, "n1": 0, "n9": 2} == {name: nodes[name].pin for name in sorted(nodes)}


async def test_nobody_is_evicted_on_a_node_that_is_shunned():
    cell = Cell(nodes=2)
    cell.queue("q", 16)
    cell.run("a", "q", gpus=8, priority=1)
    cell.run("b", "q", gpus=8, priority=1)
    bad = cell.driver.placement("a").pods[0].node
    cell.hear(NodeShunned(node=bad, until_ms=9, workloads=2, start_seconds=120))
    await cell.reload()
    cell.ask("p", "q", gpus=8, priority=7)

    cell.turn(1)

    assert [State.RUNNING, State.EVICTING] == cell.states("ab")


def test_after_that_it_may_be():
    cell = Cell()
    cell.queue("q", 8)
    cell.run("a", "q", gpus=8, priority=1)
    cell.hear(NodeShunned(node="n0", until_ms=9, workloads=2, start_seconds=120))
    cell.ask("p", "q", gpus=8, priority=7)
    cell.turn(1)
    assert [State.RUNNING] == cell.states("a")

    cell.hear(NodeUnshunned(node="n0", reason=Reason.EXPIRED))
    cell.turn(1)

    assert [State.EVICTING] == cell.states("a")


CORDONED = NodeCordoned(node="n9", reason=Reason.CORDONED, message="by ops")
SHUNNED = NodeShunned(node="n9", until_ms=9, workloads=2, start_seconds=120)


def a_cell_that_is_full() -> Cell:
    """One node; somebody has to go unless there is another."""
    cell = Cell(nodes=1)
    cell.queue("q", 16)
    cell.run("a", "q", gpus=8, priority=1)
    return cell


@pytest.mark.parametrize("fact", [CORDONED, SHUNNED])
@pytest.mark.parametrize("reloaded", [False, True])
async def test_what_is_told_of_a_node_before_its_inventory_holds_when_that_comes(fact, reloaded):
    cell = a_cell_that_is_full()
    cell.hear(fact)
    if reloaded:
        await cell.reload()
    cell.hear(reported(a_node("n9")))
    cell.ask("p", "q", gpus=8, priority=7)

    cell.turn(1)

    assert [State.EVICTING] == cell.states("a")


@pytest.mark.parametrize(
    ("fact", "taken_back"),
    [
        (CORDONED, NodeUncordoned(node="n9")),
        (SHUNNED, NodeUnshunned(node="n9", reason=Reason.EXPIRED)),
    ],
)
def test_what_is_taken_back_before_its_inventory_does_not_hold(fact, taken_back):
    cell = a_cell_that_is_full()
    cell.hear(fact, taken_back, reported(a_node("n9")))
    cell.ask("p", "q", gpus=8, priority=7)

    cell.turn(1)

    assert [State.RUNNING] == cell.states("a")


@pytest.mark.parametrize("fact", [CORDONED, SHUNNED])
def test_what_is_told_of_a_machine_holds_though_that_the_one_before_it_is_gone_is_read_later(fact):
    cell = a_cell_that_is_full()
    cell.hear(reported(a_node("n9")), fact)
    cell.hear(NodeRemoved(node="n9", generation=2), reported(a_node("n9"), generation=3))
    cell.ask("p", "q", gpus=8, priority=7)

    cell.turn(1)

    assert [State.EVICTING] == cell.states("a")
