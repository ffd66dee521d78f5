"""What quota does without a message: long queues in turns, overdue answers, totals to tell."""

import pytest

from services.quota.answers import ANSWER_WAIT_MS, SILENCE_MS
from services.quota.handler import LATE_MS, QUIET_MS
from shared.core.model.lifecycle import State
from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.pending import Phase
from shared.events import workloads
from shared.events.quotas import (
    EndedWorkloadsCounted,
    WorkloadNominated,
)
from shared.events.topics import TEAM_FACTS
from tests.unit.quota.support import (
    Ledger,
    a_workload,
    cohort_document,
    phase,
    queue_document,
    short,
)


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
    assert answers_due_ms(ledger) == ledger.now_ms + SILENCE_MS
    assert ledger.handler.due(ledger.now_ms) == []


def test_a_nomination_that_nobody_answers_counts_for_a_while_only():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"), a_workload("w2"))
    due_ms = ledger.now_ms + SILENCE_MS
    assert answers_due_ms(ledger) == due_ms
    assert answers_overdue(ledger, due_ms - 1) == []

    outcome = ledger.handler.decide(answers_overdue(ledger, due_ms), due_ms)

    assert short(outcome) == ["WorkloadNominated:w2"]
    assert phase(ledger) is Phase.REFUSED
    assert answers_due_ms(ledger) == due_ms + SILENCE_MS


def test_what_was_nominated_before_an_answered_one_is_waited_for_five_seconds():
    ledger = Ledger(queue_document(gpus=2))
    ledger.queue(a_workload("w1"))
    begin_ms = ledger.now_ms
    ledger.now_ms += 1_000
    ledger.queue(a_workload("w2"), a_workload("w3"))
    assert answers_due_ms(ledger) == begin_ms + SILENCE_MS
    ledger.now_ms += 30_000

    ledger.place("w2")

    outcome = ledger.handler.decide(answers_overdue(ledger, ledger.now_ms), ledger.now_ms)
    assert short(outcome) == ["WorkloadNominated:w3"]
    assert phase(ledger, "w1") is Phase.REFUSED
    assert answers_due_ms(ledger) == ledger.now_ms + SILENCE_MS


@pytest.mark.parametrize("refused", [False, True])
def test_the_rest_of_a_unit_has_five_seconds_from_its_first_answer(refused):
    ledger = Ledger(queue_document(gpus=2))
    ledger.queue(a_workload("w1"), a_workload("w2"))
    ledger.now_ms += 30_000

    if refused:
        ledger.refuse("w1", nomination=1)
    else:
        ledger.place("w1")

    assert answers_due_ms(ledger) == ledger.now_ms + ANSWER_WAIT_MS


def test_an_answer_to_another_nomination_proves_nothing():
    ledger = Ledger(queue_document(gpus=2))
    ledger.queue(a_workload("w1"), a_workload("w2"))
    begin_ms = ledger.now_ms
    ledger.now_ms += 30_000

    ledger.refuse("w1", nomination=7)

    assert answers_due_ms(ledger) == begin_ms + SILENCE_MS


def test_who_leaves_before_the_answer_is_not_waited_for():
    ledger = Ledger(queue_document(gpus=2))
    ledger.queue(a_workload("w1"))
    ledger.end(workloads.WorkloadCancelled, "w1", State.CANCELLED)

    assert answers_due_ms(ledger) is None


def answers_due_ms(ledger):
    return ledger.handler.memory.answers.due_ms()


def answers_overdue(ledger, now_ms):
    return of_kind(ledger.handler.due(now_ms), "answers")


def test_an_answered_nomination_is_not_waited_for():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1")

    assert answers_overdue(ledger, ledger.now_ms + SILENCE_MS) == []


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


def full_of_its_own():
    """Queue q of a cohort holds all that it owns."""
    ledger = Ledger(cohort_document(), queue_document(gpus=1, cohort="c"))
    ledger.queue(a_workload("w1"))
    ledger.place("w1")
    return ledger


def announced(outcome):
    facts = [one.payload for one in outcome.emits if isinstance(one.payload, WorkloadNominated)]
    assert all(one.next_of_own for one in facts)
    return [one.workload.id for one in facts]


def test_who_is_next_is_announced_and_no_answer_is_waited_for():
    ledger = full_of_its_own()

    assert announced(ledger.queue(a_workload("w2"))) == ["w2"]
    assert answers_due_ms(ledger) is None

    ledger.succeed("w1")
    assert phase(ledger, "w2") is Phase.OFFERED
    assert answers_due_ms(ledger) is not None


def test_quota_that_does_not_keep_up_announces_nobody_until_it_is_quiet():
    ledger = full_of_its_own()
    ledger.late_ms = LATE_MS + 1
    assert announced(ledger.queue(a_workload("w2"))) == []
    due_ms = ledger.now_ms + QUIET_MS
    assert next_due_ms(ledger) == due_ms

    (turn,) = (one for one in ledger.handler.due(due_ms) if one.event.payload.kind == "next")

    assert announced(ledger.handler.decide([turn], due_ms)) == ["w2"]
    assert next_due_ms(ledger) is None


def test_once_facts_are_young_again_it_announces_at_once():
    ledger = full_of_its_own()
    ledger.late_ms = LATE_MS + 1
    ledger.queue(a_workload("w2"))
    ledger.late_ms = LATE_MS

    assert announced(ledger.queue(a_workload("w3"))) == ["w2"]


def next_due_ms(ledger):
    return dict(ledger.handler._dues())["next"]
