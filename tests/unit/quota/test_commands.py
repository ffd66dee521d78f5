"""Commands and the facts they cause come in any order; nobody is left behind or charged twice."""

import pytest

from shared.core.model.lifecycle import State
from shared.events import workloads
from shared.events.quotas import (
    NominationWithdrawn,
    WorkloadNominated,
)
from tests.unit.quota.support import Ledger, a_workload, queue_document, short, used, writes


def test_hold_takes_the_nomination_back_and_release_gives_another():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))

    held = ledger.decide(workloads.HoldWorkload(workload_id="w1", team="t"))
    assert [one.payload for one in held.emits] == [
        NominationWithdrawn(workload_id="w1", nomination=1)
    ]
    ledger.fact(workloads.WorkloadHeld, "w1", State.HELD)
    assert short(ledger.decide(workloads.ReleaseWorkload(workload_id="w1", team="t"))) == []
    outcome = ledger.fact(workloads.WorkloadReleased, "w1", State.QUEUED)

    assert short(outcome) == ["WorkloadNominated:w1"]


def test_commands_that_come_after_the_facts_they_caused_leave_nobody_behind():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.fact(workloads.WorkloadHeld, "w1", State.HELD)
    assert short(ledger.fact(workloads.WorkloadReleased, "w1", State.QUEUED)) == [
        "WorkloadNominated:w1"
    ]

    ledger.decide(workloads.HoldWorkload(workload_id="w1", team="t"))
    outcome = ledger.decide(workloads.ReleaseWorkload(workload_id="w1", team="t"))

    assert short(outcome) == ["WorkloadNominated:w1"]


def test_a_hold_asked_of_a_running_workload_outlives_its_requeue():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    ledger.decide(workloads.HoldWorkload(workload_id="w1", team="t"))

    assert short(ledger.end(workloads.WorkloadRequeued, "w1", State.QUEUED)) == []
    released = ledger.decide(workloads.ReleaseWorkload(workload_id="w1", team="t"))
    assert short(released) == ["WorkloadNominated:w1"]


def test_a_cancelled_workload_is_never_nominated_again():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))

    withdrawn = ledger.decide(workloads.CancelWorkload(workload_id="w1", team="t"))
    again = ledger.decide(workloads.ReleaseWorkload(workload_id="w1", team="t"))

    assert short(withdrawn) == ["NominationWithdrawn:w1"]
    assert short(again) == []
    assert short(ledger.fact(workloads.WorkloadCancelled, "w1", State.CANCELLED)) == []


def test_a_placement_that_overtook_the_cancellation_is_charged_until_it_is_over():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.decide(workloads.CancelWorkload(workload_id="w1", team="t"))

    ledger.place("w1")
    assert used(ledger) == 1000
    ledger.end(workloads.WorkloadCancelled, "w1", State.CANCELLED)
    assert used(ledger) == 0


def test_a_change_of_priority_is_a_nomination_in_another_place():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))

    outcome = ledger.fact(
        workloads.WorkloadReprioritised, "w1", State.QUEUED, priority=900, priority_class="gold"
    )

    assert short(outcome) == ["NominationWithdrawn:w1", "WorkloadNominated:w1"]
    fact = outcome.emits[1].payload
    assert isinstance(fact, WorkloadNominated)
    assert (fact.nomination, fact.order_key[0], fact.workload.priority) == (2, -900, 900)


def test_a_priority_that_is_asked_for_is_another_only_once_placement_says_so():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))

    asked = workloads.ReprioritiseWorkload(
        workload_id="w1", team="t", priority_class="gold", priority=900
    )

    assert ledger.decide(asked).emits == []
    assert ledger.handler.memory.records.alive["w1"].priority == 0


@pytest.mark.parametrize("heard", [True, False])
def test_what_runs_keeps_its_charge_and_comes_back_by_its_new_priority(heard):
    """Every fact says the priority: who missed the one of the change knows it by the next."""
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    if heard:
        told = ledger.fact(
            workloads.WorkloadReprioritised, "w1", State.RUNNING, attempt=1, priority=900
        )
        assert told.emits == []
        assert ledger.handler.memory.core.lines["q"].use_below("h100", 900) == (0, 0, 0)
    assert used(ledger) == 1000

    outcome = ledger.fact(workloads.WorkloadRequeued, "w1", State.QUEUED, priority=900)

    assert used(ledger) == 0
    fact = outcome.emits[0].payload
    assert isinstance(fact, WorkloadNominated)
    assert (fact.order_key[0], fact.workload.priority) == (-900, 900)


def test_an_older_change_of_priority_of_what_runs_is_none():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    ledger.versions["w1"] = 1

    ledger.fact(workloads.WorkloadReprioritised, "w1", State.RUNNING, attempt=1, priority=900)

    assert ledger.handler.memory.records.alive["w1"].priority == 0


def test_a_priority_that_overtook_the_workload_is_remembered_and_so_is_that_it_is_held():
    ledger = Ledger(queue_document())
    ledger.fact(workloads.WorkloadHeld, "w1", State.HELD)
    early = ledger.fact(workloads.WorkloadReprioritised, "w1", State.HELD, priority=900)
    assert writes(early, "INSERT", "early") == [(["w1"], [3], [True], [False], [900])]

    assert short(ledger.queue(a_workload("w1"))) == []
    assert ledger.handler.memory.records.alive["w1"].priority == 900


def test_who_was_reprioritised_before_quota_knew_it_is_nominated_by_that():
    ledger = Ledger(queue_document())
    ledger.fact(workloads.WorkloadReprioritised, "w1", State.QUEUED, priority=900)

    outcome = ledger.queue(a_workload("w1"))

    fact = outcome.emits[0].payload
    assert isinstance(fact, WorkloadNominated)
    assert (fact.order_key[0], fact.workload.priority) == (-900, 900)


def test_a_cancellation_that_overtook_the_workload_is_remembered():
    ledger = Ledger(queue_document())

    early = ledger.fact(workloads.WorkloadCancelled, "w1", State.CANCELLED)
    assert writes(early, "INSERT", "early") == [(["w1"], [2], [False], [True], [0])]
    outcome = ledger.queue(a_workload("w1"))

    assert outcome.emits == []
    assert writes(outcome, "DELETE", "early") == [(["w1"],)]
    assert ledger.handler.memory.records.alive == {}


def test_a_hold_that_overtook_the_workload_is_remembered():
    ledger = Ledger(queue_document())
    ledger.fact(workloads.WorkloadHeld, "w1", State.HELD)

    assert short(ledger.queue(a_workload("w1"))) == []
    assert short(ledger.fact(workloads.WorkloadReleased, "w1", State.QUEUED)) == [
        "WorkloadNominated:w1"
    ]


def test_an_older_fact_changes_nothing():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    ledger.versions["w1"] = 1

    outcome = ledger.end(workloads.WorkloadRequeued, "w1", State.QUEUED)

    assert outcome.writes == []
    assert used(ledger) == 1000
