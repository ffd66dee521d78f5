"""What quota does without a message: long queues in turns, overdue answers, totals to tell."""

from services.quota.answers import ANSWER_WAIT_MS
from shared.core.lifecycle import State
from shared.core.nomination.pending import Phase
from shared.core.units import UNLIMITED
from shared.events import workloads
from shared.events.quotas import (
    EndedWorkloadsCounted,
    WorkloadNominated,
)
from shared.events.topics import TEAM_FACTS
from tests.unit.quota.support import Ledger, a_workload, phase, queue_document, short


def test_a_long_queue_is_nominated_in_turns():
    ledger = Ledger(queue_document(gpus=UNLIMITED, held=True))
    ledger.queue(*(a_workload(f"w{i:04}") for i in range(1_200)))
    first = ledger.apply(queue_document(version=2, gpus=UNLIMITED))
    assert ledger.handler.next_due_ms() == 0

    (turn,) = ledger.handler.due(ledger.now_ms)
    second = ledger.handler.decide([turn], ledger.now_ms)

    nominated = [
        one for one in (*first.emits, *second.emits) if isinstance(one.payload, WorkloadNominated)
    ]
    assert len(nominated) == 1_200
    assert ledger.handler.next_due_ms() == ledger.now_ms + ANSWER_WAIT_MS
    assert ledger.handler.due(ledger.now_ms) == []


def test_a_nomination_that_nobody_answers_counts_for_a_while_only():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"), a_workload("w2"))
    due_ms = ledger.now_ms + ANSWER_WAIT_MS
    assert ledger.handler.next_due_ms() == due_ms
    assert ledger.handler.due(due_ms - 1) == []

    outcome = ledger.handler.decide(ledger.handler.due(due_ms), due_ms)

    assert short(outcome) == ["WorkloadNominated:w2"]
    assert phase(ledger) is Phase.REFUSED
    assert ledger.handler.next_due_ms() == due_ms + ANSWER_WAIT_MS


def test_an_answered_nomination_is_not_waited_for():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")

    overdue = ledger.handler.due(ledger.now_ms + ANSWER_WAIT_MS)
    assert of_kind(overdue, "answers") == []


def test_how_many_have_ended_is_told_once_a_second_and_team():
    ledger = Ledger(queue_document())
    ledger.queue(*(a_workload(f"w{i}") for i in range(4)))
    for i in range(3):
        ledger.end(workloads.WorkloadCancelled, f"w{i}", State.CANCELLED)

    told = told_ended(ledger)
    nothing_new = ledger.handler.due(ledger.now_ms + 60_000)
    ledger.end(workloads.WorkloadFailed, "w3", State.FAILED)
    too_soon = ledger.handler.due(ledger.now_ms + 999)
    ledger.now_ms += 1_000
    told_again = told_ended(ledger)

    assert [("t", 3)] == told
    assert [] == of_ended(nothing_new)
    assert [] == of_ended(too_soon)
    assert [("t", 4)] == told_again
    assert ledger.outcomes[-1].emits[0].topic == TEAM_FACTS


def told_ended(ledger):
    due = of_ended(ledger.handler.due(ledger.now_ms))
    outcome = ledger.handler.decide(due, ledger.now_ms)
    ledger.outcomes.append(outcome)
    facts = [one.payload for one in outcome.emits]
    return [(one.team, one.ended) for one in facts if isinstance(one, EndedWorkloadsCounted)]


def of_ended(messages):
    return of_kind(messages, "ended")


def of_kind(messages, kind):
    return [one for one in messages if one.event.payload.kind == kind]
