"""A relay that begins anew, or whose broker was away, tells again what it told last."""

from __future__ import annotations

import pytest

from services.preemption import memory as module
from services.preemption.memory import PreemptionMemory
from services.preemption.records import Flight
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.units import Resources
from shared.events.plans import EvictionPlanAccepted, ReservationExpired
from shared.events.pods import PodsRunning
from shared.events.workloads import CancelWorkload, PlacementRefused
from tests.support.placement_driver import a_node, command, nominated, pod_fact, reported
from tests.unit.preemption.world import Cell


def a_cell() -> Cell:
    """The lender owns 8 GPUs, and the borrower has them all."""
    cell = Cell()
    cell.queue("lender", 8)
    cell.queue("borrower", 0)
    cell.run("a", "borrower", gpus=8, team="blue")
    return cell


def start(cell: Cell, name: str) -> None:
    cell.send(pod_fact(PodsRunning, name, cell.driver.record(name).attempt))
    assert cell.driver.state(name) is State.RUNNING


@pytest.mark.parametrize("reloaded", [False, True])
async def test_a_plan_that_is_at_its_end_is_not_begun_anew(reloaded: bool):
    cell = a_cell()
    cell.ask("p", "lender", gpus=8)
    cell.turn(1)
    cell.leave("a")
    start(cell, "p")
    cell.both(reported(a_node("n1")))
    cell.both(nominated(cell.driver.record("a").workload, number=2))
    start(cell, "a")
    lost = cell.handler.memory.losses["blue"]
    if reloaded:
        await cell.reload()

    cell.hear_again()

    assert {} == cell.handler.memory.flights
    assert lost == cell.handler.memory.losses["blue"]
    cell.handler.world.refresh()
    assert cell.handler.world.cluster.digest() == cell.driver.handler.state.cluster.digest()


def test_a_plan_that_ran_out_of_its_time_is_not_begun_anew():
    cell = a_cell()
    cell.ask("p", "lender", gpus=8)
    (accepted, *_) = cell.turn(1)
    cell.turn(100)
    assert any(isinstance(one, ReservationExpired) for one in cell.said)

    cell.hear(accepted)

    assert {} == cell.handler.memory.flights


def test_a_plan_that_was_given_up_without_an_answer_is_believed_when_that_comes():
    cell = a_cell()
    cell.ask("p", "lender", gpus=8)
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    cell.driver.now_ms += 61_000
    cell.ask("other", "borrower", gpus=8)
    assert [] == cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    assert plan.plan_id not in cell.handler.memory.flights

    assert isinstance(cell.send(plan)[0], EvictionPlanAccepted)

    assert [plan.plan_id] == list(cell.handler.memory.flights)


@pytest.mark.parametrize("reloaded", [False, True])
async def test_who_was_refused_and_runs_by_now_is_not_looked_for(reloaded: bool):
    cell = a_cell()
    cell.ask("p", "lender", gpus=8)
    cell.send(command(CancelWorkload, "a"))
    cell.leave("a")
    start(cell, "p")
    if reloaded:
        await cell.reload()

    cell.hear_again()

    assert cell.handler.next_due_ms() is None
    assert not cell.handler.memory.stands["p"].refused


def test_who_was_refused_and_is_over_is_not_known_again():
    cell = a_cell()
    cell.ask("p", "lender", gpus=8)
    cell.send(command(CancelWorkload, "p"))

    cell.hear(*(one for one in cell.said if isinstance(one, PlacementRefused)))

    assert "p" not in cell.handler.memory.stands


async def test_so_many_plans_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ENDED_MAX", 2)
    memory = PreemptionMemory()
    nowhere = Placement(flavor="h100", pods=(), charge=Resources())

    for name in "abc":
        memory.fly(Flight(name, "p", {}, nowhere, 0))
        memory.land(name)

    assert ["b", "c"] == list(memory.ended)
    assert ["b", "c"] == list(memory.journal.of_kind(module.ENDED))
