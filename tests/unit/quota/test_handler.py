"""Facts come in any order between topics; nominations, charges and rows come out right."""

from services.quota.answers import ANSWER_WAIT_MS
from shared.core.lifecycle import State
from shared.core.pending import Phase
from shared.core.queue_policy import QueuePolicy, Reclaim
from shared.core.units import UNLIMITED, Resources
from shared.events import workloads
from shared.events.organisation import CohortApplied, FlavorApplied
from shared.events.quotas import (
    EndedWorkloadsCounted,
    FlavorQuota,
    NominationWithdrawn,
    QuotaChanged,
    QuotaRefused,
    WorkloadNominated,
)
from shared.events.topics import QUOTA_FACTS, TEAM_FACTS, WORKLOAD_FACTS
from tests.unit.admission.builders import gpu_quota
from tests.unit.quota.support import Ledger, a_workload, queue_document, short, writes


def used(ledger, name="q", flavor="h100"):
    return ledger.handler.memory.core.tree.node(name).used.get(flavor, [0, 0, 0])[0]


def phase(ledger, identifier="w1"):
    return ledger.handler.memory.records.alive[identifier].phase


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
    assert short(ledger.queue(a_workload("w2"))) == ["QuotaRefused:w2"]

    assert short(ledger.succeed("w1")) == ["WorkloadNominated:w2"]


def test_a_refusal_of_placement_lets_the_next_be_tried():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"), a_workload("w2"))
    from shared.core.decision import Reason  # noqa: PLC0415

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

    outcome = ledger.decide(
        workloads.ReprioritiseWorkload(
            workload_id="w1", team="t", priority_class="gold", priority=900
        )
    )

    assert short(outcome) == ["NominationWithdrawn:w1", "WorkloadNominated:w1"]
    fact = outcome.emits[1].payload
    assert isinstance(fact, WorkloadNominated)
    assert (fact.nomination, fact.order_key[0], fact.workload.priority) == (2, -900, 900)


def test_a_cancellation_that_overtook_the_workload_is_remembered():
    ledger = Ledger(queue_document())

    early = ledger.fact(workloads.WorkloadCancelled, "w1", State.CANCELLED)
    assert writes(early, "INSERT", "early") == [(["w1"], [2], [False], [True])]
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


def test_a_node_in_force_tells_its_whole_document():
    pool = (FlavorQuota(flavor="h100", nominal=gpu_quota(4), lending_limit=gpu_quota(1)),)
    policy = QueuePolicy(reclaim=Reclaim.NEVER)
    ledger = Ledger()

    outcome = ledger.apply(
        CohortApplied(name="c", version=4, flavors=pool, weight=3),
        queue_document(cohort="c", version=9, policy=policy, draining=True),
    )

    cohort, queue = (one.payload for one in outcome.emits)
    assert cohort == QuotaChanged(name="c", kind="cohort", flavors=pool, weight=3, version=1)
    assert queue == QuotaChanged(
        name="q",
        kind="queue",
        parent="c",
        flavors=(FlavorQuota(flavor="h100", nominal=gpu_quota(8)),),
        policy=policy,
        draining=True,
        team="t",
        version=9,
    )
    (rows,) = writes(outcome, "INSERT", "quota_node")
    assert rows[0] == ["c", "q"]


def test_a_document_that_makes_no_sense_leaves_the_old_in_force():
    ledger = Ledger(queue_document())
    twice = (FlavorQuota(flavor="h100"), FlavorQuota(flavor="h100"))
    negative = (FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=-1)),)

    for number, flavors in enumerate((twice, negative), 2):
        outcome = ledger.apply(queue_document(version=number, flavors=flavors))
        assert (outcome.emits, outcome.writes) == ([], [])
    bad = FlavorApplied(name="h100", version=1, price_microdollars_per_gpu_hour=-1)
    assert ledger.apply(bad).writes == []
    assert ledger.handler.memory.core.tree.node("q").owned("h100")[0] == 8000


def test_a_change_of_quota_takes_effect_in_the_same_batch():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1", gpus=2))

    outcome = ledger.apply(queue_document(version=2, gpus=2))

    assert short(outcome) == ["QuotaChanged:q", "WorkloadNominated:w1"]


def test_why_it_waits_is_told_with_the_numbers():
    ledger = Ledger(queue_document(gpus=1))
    ledger.queue(a_workload("w1"))
    ledger.place("w1")

    fact = ledger.queue(a_workload("w2")).emits[0].payload

    assert isinstance(fact, QuotaRefused)
    assert (fact.team, fact.queue, fact.reason) == ("t", "q", "WaitingForQuota")
    assert "requested: gpu=1, used: gpu=1, limited: gpu=1" in fact.message


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


def test_the_same_messages_give_the_same_outcome():
    def play():
        ledger = Ledger(queue_document(gpus=3))
        ledger.queue(*(a_workload(f"w{i}", gpus=1 + i % 2) for i in range(6)))
        ledger.place("w0")
        ledger.apply(queue_document(version=2, gpus=2))
        ledger.succeed("w0")
        return [(one.emits, one.changes, one.writes) for one in ledger.outcomes]

    assert play() == play()


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
