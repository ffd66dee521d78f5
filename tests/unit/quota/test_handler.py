"""Facts come in any order between topics; nominations, charges and rows come out right."""

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.units import Resources
from shared.core.queueing.nomination.pending import Phase
from shared.events import workloads
from shared.events.quotas import (
    QuotaRefused,
    WorkloadNominated,
)
from shared.events.topics import QUOTA_FACTS, WORKLOAD_FACTS
from tests.unit.quota.support import Ledger, a_workload, phase, queue_document, short, used, writes


def test_a_queued_workload_is_nominated_whole_with_its_order_key():
    ledger = Ledger(queue_document())

    outcome = ledger.queue(a_workload("w1", priority=7, at_ms=123))

    (emit,) = outcome.emits
    assert (emit.topic, emit.partition, emit.subject) == (QUOTA_FACTS, 0, "w1")
    fact = emit.payload
    assert isinstance(fact, WorkloadNominated)
    assert fact.workload == a_workload("w1", priority=7, at_ms=123)
    assert (fact.version, fact.nomination, fact.order_key[:2]) == (1, 1, (-7, 123))
    assert [one.flavor for one in fact.flavors] == ["h100"]
    assert fact.flavors[0].borrowable == Resources()


def test_a_life_costs_one_row_and_leaves_one_row_of_history():
    ledger = Ledger(queue_document())

    (inserted,) = writes(ledger.queue(a_workload("w1", gpus=2)), "INSERT", "pending")
    assert (inserted[0], inserted[1]) == (["w1"], ["offered"])
    (updated,) = writes(ledger.place("w1", gpus=2), "UPDATE", "pending")
    assert (updated[1], updated[8], updated[9]) == (["placed"], ["h100"], [2000])
    last = ledger.succeed("w1", at_ms=50_000)
    assert writes(last, "DELETE", "pending") == [(["w1"],)]
    (history,) = writes(last, "INSERT", "usage_history")
    assert [column[0] for column in history] == [
        *("w1", 1, "t", "q", "h100", 2000, 0, 0, 20_000, 50_000, 0)
    ]
    assert used(ledger) == 0
    assert ledger.handler.memory.records.alive == {}


def test_a_gang_that_changes_its_size_leaves_a_row_of_history_for_each():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1", gpus=2))
    ledger.place("w1", gpus=2, at_ms=20_000)

    grown = ledger.resize("w1", 6, 1, at_ms=30_000)
    in_use = used(ledger)
    last = ledger.succeed("w1", at_ms=50_000, resizes=1)

    rows = [
        [column[0] for column in writes(outcome, "INSERT", "usage_history")[0]]
        for outcome in (grown, last)
    ]
    assert [(row[5], *row[8:]) for row in rows] == [
        (2000, 20_000, 30_000, 0),
        (6000, 30_000, 50_000, 1),
    ]
    assert (in_use, used(ledger)) == (6000, 0)


def test_what_begins_and_ends_in_one_batch_has_no_row_at_all():
    ledger = Ledger(queue_document())
    queued = workloads.WorkloadQueued(workload=a_workload("w1"), body_hash="h")
    cancelled = workloads.WorkloadCancelled(
        workload_id="w1",
        team="t",
        queue="q",
        version=2,
        state=State.CANCELLED,
        attempt=0,
        priority=0,
    )

    outcome = ledger.decide(queued, cancelled)

    assert not any("pending" in one.sql or "early" in one.sql for one in outcome.writes)


def test_facts_that_change_nothing_for_quota_write_nothing():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")

    outcome = ledger.fact(workloads.WorkloadRunning, "w1", State.RUNNING, running_at_ms=1)

    assert outcome.writes == []
    assert outcome.emits == []


def test_the_next_goes_when_quota_is_given_back():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    told = ["QuotaRefused:w2", "WorkloadNominated:w2"]
    assert short(ledger.queue(a_workload("w2"))) == told, "as the next for what its queue owns"

    assert short(ledger.succeed("w1")) == [], "placement knows it already"


def test_a_refusal_of_placement_lets_the_next_be_tried():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"), a_workload("w2"))

    outcome = ledger.decide(
        workloads.PlacementRefused(
            workload_id="w1",
            team="t",
            queue="q",
            nomination=1,
            reason=Reason.NO_CAPACITY,
            message="",
            next_step="",
        ),
        topic=WORKLOAD_FACTS.name,
    )

    assert short(outcome) == ["WorkloadNominated:w2"]
    assert phase(ledger) is Phase.REFUSED
    (updated,) = writes(outcome, "UPDATE", "pending")
    assert updated[1] == ["refused", "offered"]


def test_a_requeued_workload_is_nominated_anew_and_keeps_its_place():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1", at_ms=77))
    ledger.place("w1")

    outcome = ledger.end(workloads.WorkloadRequeued, "w1", State.QUEUED)

    (emit,) = outcome.emits
    assert isinstance(emit.payload, WorkloadNominated)
    assert (emit.payload.nomination, emit.payload.order_key[1]) == (2, 77)
    assert emit.payload.version == 3
    assert emit.payload.workload == a_workload("w1", at_ms=77)
    assert writes(outcome, "INSERT", "usage_history") != []
    assert used(ledger) == 0


def test_why_it_waits_is_told_with_the_numbers():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"))
    ledger.place("w1")

    fact = ledger.queue(a_workload("w2")).emits[0].payload

    assert isinstance(fact, QuotaRefused)
    assert (fact.team, fact.queue, fact.reason) == ("t", "q", "WaitingForQuota")
    assert "requested: gpu=1, used: gpu=1, limited: gpu=1" in fact.message


def test_the_same_messages_give_the_same_outcome():
    def play():
        ledger = Ledger(queue_document(gpus=3))
        ledger.queue(*(a_workload(f"w{i}", gpus=1 + i % 2) for i in range(6)))
        ledger.place("w0")
        ledger.apply(queue_document(version=2, gpus=2))
        ledger.succeed("w0")
        return [(one.emits, one.changes, one.writes) for one in ledger.outcomes]

    assert play() == play()
