"""Who waits gets another class or priority: whether it is looked for as before."""

from __future__ import annotations

import pytest

from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import ReprioritiseWorkload
from tests.support.placement_driver import a_workload, command, kinds, nominated
from tests.unit.preemption.world import Cell


def a_cell() -> Cell:
    """Two queues that own 4 GPUs each; the borrower has all eight."""
    cell = Cell()
    cell.queue("owner", 4)
    cell.queue("borrower", 4)
    cell.run("a", "borrower", gpus=4, team="blue")
    cell.run("b", "borrower", gpus=4, team="blue")
    return cell


@pytest.mark.parametrize("late", [False, True], ids=["", "its nomination is read last"])
@pytest.mark.parametrize("reloaded", [False, True])
async def test_who_waits_with_another_class_of_the_same_priority_is_looked_for_as_before(
    late, reloaded
):
    cell = a_cell()
    asks = nominated(a_workload("p", queue="owner", gpus=4, priority=3), order=-3)
    cell.hear(*(() if late else (asks,)))
    cell.send(asks)
    assert [] == cell.send(asks), "placement tells no refusal twice"

    cell.send(
        command(ReprioritiseWorkload, "p", priority_class="inference-production", priority=3)
    )
    cell.hear(*((asks,) if late else ()))
    if reloaded:
        await cell.reload()

    memory = cell.handler.memory
    assert memory.spares(memory.offers["p"].workload)
    assert "EvictionPlanAccepted" in kinds(cell.turn(1))


def test_who_waits_with_another_priority_is_looked_for_when_it_is_nominated_by_it():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4, priority=3, order=-3)

    cell.send(command(ReprioritiseWorkload, "p", priority_class="high", priority=9))
    assert cell.handler.next_due_ms() is None
    workload = cell.driver.record("p").workload
    cell.both(nominated(workload, number=2, order=-9))

    assert "EvictionPlanAccepted" in kinds(cell.turn(1))


def test_another_class_brings_nobody_back_whose_nomination_was_withdrawn():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    cell.both(NominationWithdrawn(workload_id="p", nomination=1))

    cell.send(command(ReprioritiseWorkload, "p", priority_class="other", priority=0))

    assert cell.handler.next_due_ms() is None


def test_who_is_nominated_by_its_new_priority_before_that_is_told_is_looked_for():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4, priority=3, order=-9)

    cell.send(command(ReprioritiseWorkload, "p", priority_class="high", priority=9))

    assert "EvictionPlanAccepted" in kinds(cell.turn(1))


def test_a_plan_that_was_refused_as_its_preemptor_has_another_class_is_made_anew():
    cell = a_cell()
    cell.ask("p", "owner", gpus=4)
    (plan,) = cell.decide(list(cell.handler.due(cell.driver.now_ms)))
    cell.send(command(ReprioritiseWorkload, "p", priority_class="other", priority=0))

    assert ["EvictionPlanRefused"] == kinds(cell.send(plan))

    assert "EvictionPlanAccepted" in kinds(cell.turn(1))
