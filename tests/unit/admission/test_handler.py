"""Submissions become verdicts once, commands follow them in order, facts change the rules."""

import pytest

from services.admission import known
from services.admission.handler import AdmissionHandler
from services.admission.parking import FIT_WAIT_MS, NAMES_WAIT_MS
from shared.core.decision import FieldError
from shared.core.units import Resources
from shared.events.envelope import workload_id
from shared.events.malformed import SubmissionMalformed
from shared.events.organisation import PriorityClassApplied
from shared.events.quotas import EndedWorkloadsCounted
from shared.events.topics import (
    QUEUE_FACTS,
    SUBMISSION_COMMANDS,
    TEAM_FACTS,
    team_of,
    team_results,
    team_submissions,
)
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    ReprioritiseWorkload,
    RequestEviction,
    SubmissionAnswered,
    SubmissionConflicted,
    SubmitWorkload,
    WorkloadQueued,
    WorkloadRejected,
)
from tests.unit.admission.builders import QUEUE, TEAM, a_node, a_spec
from tests.unit.admission.support import (
    NoRows,
    Office,
    a_queue_document,
    a_team_document,
    kinds,
    only,
    received,
)

ID = workload_id(TEAM, "k1")


def rows_of(outcome, table):
    return [one for one in outcome.writes if f"admission.{table}" in one.sql]


def test_a_good_submission_is_queued_with_its_defaults_row_and_audit():
    outcome = Office().http()

    fact = only(outcome, WorkloadQueued)
    assert (fact.workload.id, fact.workload.team, fact.workload.queue) == (ID, TEAM, QUEUE)
    assert (fact.workload.priority, fact.version, fact.door) == (100, 1, "http")
    assert fact.workload.submitted_at_ms == 1_000
    assert fact.workload.spec.pod_sets[0].cpu_milli == 4000
    (emit,) = outcome.emits
    assert (emit.topic, emit.partition, emit.subject) == (QUEUE_FACTS, 0, ID)
    (change,) = outcome.changes
    assert (change.before, change.after, change.version) == ("received", "queued", 1)
    (row,) = rows_of(outcome, "workload")
    assert row.expect == 1
    assert row.arguments[0] == [ID]


def test_a_bad_submission_is_rejected_with_field_value_and_rule():
    outcome = Office().http(a_spec(name="Bad"))

    fact = only(outcome, WorkloadRejected)
    assert (fact.errors[0].field, fact.errors[0].value) == ("name", "Bad")
    assert outcome.changes[0].after == "rejected"


def test_the_same_by_kafka_is_answered_on_the_results_topic_of_the_team():
    outcome = Office().kafka()

    assert kinds(outcome) == ["WorkloadQueued", "SubmissionAnswered"]
    assert outcome.emits[1].topic == team_results(TEAM)
    answer = only(outcome, SubmissionAnswered)
    assert (answer.workload_id, answer.idempotency_key, answer.outcome) == (ID, "k1", "accepted")


def test_on_a_teams_topic_the_team_is_the_topics_and_the_id_is_derived():
    outcome = Office().kafka(team=TEAM, workload_id="wforged", body_hash="00")

    fact = only(outcome, WorkloadQueued)
    assert fact.workload.id == ID
    assert fact.body_hash != "00"


def test_a_claimed_team_is_ignored():
    office = Office()
    claim = SubmitWorkload(spec=a_spec(), team="victim")
    topic = team_submissions(TEAM).name

    outcome = office.decide(office.message(claim, topic, key="k1"))

    assert only(outcome, WorkloadQueued).workload.team == TEAM


def test_both_doors_make_one_workload():
    office = Office()
    office.http()

    again = office.kafka()

    assert kinds(again) == ["SubmissionAnswered"]
    assert only(again, SubmissionAnswered).outcome == "accepted"
    assert again.changes == []
    assert rows_of(again, "workload") == []


def test_the_same_twice_in_one_batch_is_queued_once():
    office = Office()
    command = SubmitWorkload(workload_id=ID, team=TEAM, spec=a_spec(), body_hash="h")

    outcome = office.decide(office.message(command), office.message(command))

    assert kinds(outcome) == ["WorkloadQueued"]


def test_another_body_under_the_same_key_is_a_conflict_and_the_first_stands():
    office = Office()
    office.kafka()

    outcome = office.kafka(a_spec(name="other"))

    assert kinds(outcome) == ["SubmissionConflicted", "SubmissionAnswered"]
    assert only(outcome, SubmissionConflicted).workload_id == ID
    assert only(outcome, SubmissionAnswered).outcome == "conflicted"
    assert outcome.changes == []


def test_a_rejected_submission_is_rejected_again_with_the_same_errors():
    office = Office()
    first = only(office.kafka(a_spec(name="Bad")), SubmissionAnswered)

    second = only(office.kafka(a_spec(name="Bad")), SubmissionAnswered)

    assert second == first
    assert second.errors[0].field == "name"


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 201, "ключ"])
def test_a_key_that_cannot_be_printed_goes_to_the_dead_letters(key):
    office = Office()
    message = office.message(SubmitWorkload(spec=a_spec()), team_submissions(TEAM).name, key=key)

    outcome = office.decide(message)

    if key:
        assert outcome.emits == []
        assert outcome.dead[0][0] is message
    else:  # without a key the id of the event stands for it
        assert kinds(outcome) == ["WorkloadQueued", "SubmissionAnswered"]


def test_a_submission_without_an_id_goes_to_the_dead_letters():
    outcome = Office().command(SubmitWorkload(team=TEAM, spec=a_spec()))

    assert "workload_id" in outcome.dead[0][1]


@pytest.mark.parametrize(
    "command", [CancelWorkload, HoldWorkload, ReleaseWorkload, RequestEviction]
)
def test_later_commands_follow_the_workload_on_its_topic(command):
    office = Office()
    office.http()

    outcome = office.command(command(workload_id=ID, team=TEAM, actor="ann"))

    (emit,) = outcome.emits
    assert emit.payload == command(workload_id=ID, team=TEAM, actor="ann")
    assert (emit.topic, emit.partition, emit.subject) == (QUEUE_FACTS, 0, ID)


def test_a_change_of_priority_gets_the_value_of_its_class():
    office = Office()
    office.http()

    outcome = office.command(
        ReprioritiseWorkload(workload_id=ID, team=TEAM, priority_class="training-interactive")
    )

    assert only(outcome, ReprioritiseWorkload).priority == 500


def test_a_class_that_the_team_may_not_use_changes_nothing():
    office = Office()
    office.http()

    outcome = office.command(
        ReprioritiseWorkload(workload_id=ID, team=TEAM, priority_class="inference-production")
    )

    assert outcome.emits == []


def test_commands_for_what_is_unknown_foreign_or_rejected_go_nowhere():
    office = Office()
    office.http()
    office.http(a_spec(name="Bad"), key="k2")

    for identifier, team in [("wnone", TEAM), (ID, "other"), (workload_id(TEAM, "k2"), TEAM)]:
        outcome = office.command(CancelWorkload(workload_id=identifier, team=team))
        assert outcome.emits == []


def test_only_submissions_are_taken_on_a_teams_topic():
    office = Office()
    office.http()
    command = CancelWorkload(workload_id=ID, team=TEAM)

    outcome = office.decide(office.message(command, team_submissions(TEAM).name, key="k9"))

    assert outcome.emits == []
    assert len(outcome.dead) == 1


def test_a_submission_may_come_before_its_team_and_queue_are_known():
    office = Office(known=False)

    assert office.http().emits == []
    office.apply(a_team_document())
    outcome = office.apply(a_queue_document())

    assert kinds(outcome) == ["WorkloadQueued"]
    assert office.pass_ms(NAMES_WAIT_MS).emits == []


def test_what_stays_unknown_is_rejected_when_its_time_is_up():
    office = Office(known=False)
    office.kafka()
    assert office.handler.next_due_ms() == office.now_ms + NAMES_WAIT_MS

    assert office.pass_ms(NAMES_WAIT_MS - 1).emits == []
    outcome = office.pass_ms(1)

    assert kinds(outcome) == ["WorkloadRejected", "SubmissionAnswered"]
    assert office.handler.next_due_ms() is None


def test_a_parked_submission_has_a_row_for_as_long_as_it_waits():
    office = Office(known=False)

    (row,) = rows_of(office.http(), "parked")
    assert (row.sql.split()[0], row.arguments[0]) == ("INSERT", [ID])
    (row,) = rows_of(office.pass_ms(NAMES_WAIT_MS), "parked")
    assert (row.sql.split()[0], row.arguments) == ("DELETE", ([ID],))


def test_a_parked_submission_is_one_submission_however_often_it_comes():
    office = Office(known=False)
    office.http()
    office.http()
    assert kinds(office.http(a_spec(name="other"))) == ["SubmissionConflicted"]

    assert kinds(office.pass_ms(NAMES_WAIT_MS)) == ["WorkloadRejected"]


def test_a_cancellation_does_not_overtake_a_verdict():
    office = Office()
    office.apply(a_team_document("late", queue="late"))
    spec = a_spec()
    identifier = workload_id("late", "k1")
    office.http(spec, team="late")

    outcome = office.command(CancelWorkload(workload_id=identifier, team="late"))

    assert kinds(outcome) == ["WorkloadRejected"]


def test_what_never_fits_is_refused_at_once():
    outcome = Office(nodes=2).http(a_spec(gpus=8, count=3))

    assert "at most 2 such pods" in only(outcome, WorkloadRejected).message


def test_while_the_fleet_is_still_reporting_a_refusal_waits_for_it():
    office = Office()
    office.report(a_node("n1"))
    assert office.http(a_spec(gpus=8, count=2)).emits == []

    assert kinds(office.report(a_node("n2"))) == ["WorkloadQueued"]


def test_a_fleet_that_does_not_grow_any_more_has_spoken():
    office = Office()
    office.report(a_node("n1"))
    office.http(a_spec(gpus=8, count=2))

    assert kinds(office.pass_ms(FIT_WAIT_MS)) == ["WorkloadRejected"]


def test_a_node_that_left_counts_no_more():
    office = Office(nodes=2)
    office.lose("n1")

    assert kinds(office.http(a_spec(gpus=8, count=2))) == ["WorkloadRejected"]


def test_old_news_about_nodes_and_documents_changes_nothing():
    office = Office(nodes=1)

    assert office.report(a_node("n0", gpus=1), generation=0).writes == []
    assert office.report(a_node("n0"), generation=5).writes == []
    assert office.lose("n0", generation=1).writes == []
    assert office.apply(a_queue_document(gpus=1, version=1)).writes == []
    assert kinds(office.http(a_spec(gpus=8))) == ["WorkloadQueued"]


def test_a_site_defines_its_classes():
    office = Office()
    office.apply(PriorityClassApplied(name="gold", version=1, value=7000, kinds=("training",)))

    assert only(office.http(), WorkloadQueued).workload.priority == 7000


def test_absurd_documents_are_bounded_before_they_reach_a_workload():
    office = Office()
    office.apply(
        PriorityClassApplied(name="gold", version=1, value=10**30, kinds=("training",)),
        a_team_document(
            version=2,
            default_pod=Resources(cpu_milli=10**20, memory_mib=-5),
            max_pod=Resources(gpu_milli=10**20, cpu_milli=10**20, memory_mib=10**20),
        ),
    )

    workload = only(office.http(), WorkloadQueued).workload

    assert workload.priority == 10**9
    pod_set = workload.spec.pod_sets[0]
    assert (pod_set.cpu_milli, pod_set.memory_mib) == (4_096_000, 0)


def test_every_team_that_submits_by_kafka_is_read():
    office = Office()
    office.apply(a_team_document("b"), a_team_document("c", kafka=False))

    names = [topic.name for topic, _ in office.handler.topics()]

    assert team_submissions(TEAM).name in names
    assert team_submissions("b").name in names
    assert team_submissions("c").name not in names
    assert SUBMISSION_COMMANDS.name in names


def test_another_cell_does_not_read_the_teams_topics():
    assert [name for name, _ in AdmissionHandler(cell=1).topics() if team_of(name.name)] == []


async def test_no_look_up_is_needed_while_memory_is_complete():
    handler = AdmissionHandler()
    reader = NoRows()
    await handler.load(reader)
    asked = reader.asked

    await handler.prepare([received(CancelWorkload(workload_id=ID, team=TEAM))], reader)

    assert reader.asked == asked


async def test_what_memory_forgot_is_looked_up_once_for_a_batch(monkeypatch):
    monkeypatch.setattr(known, "KNOWN_MAX", 2)
    office = Office()
    for i in range(4):
        office.http(key=f"k{i}")
    row = {
        "id": workload_id(TEAM, "k0"),
        "team": TEAM,
        "body_hash": "h",
        "state": "accepted",
        "message": "",
        "errors": "",
    }
    reader = NoRows([row])
    message = office.message(CancelWorkload(workload_id=row["id"], team=TEAM))

    await office.handler.prepare([message, message], reader)
    outcome = office.handler.decide([message], office.now_ms)

    assert reader.asked == 1
    assert kinds(outcome) == ["CancelWorkload"]


def test_the_same_messages_give_the_same_outcome():
    def play():
        office = Office(nodes=2)
        office.kafka()
        office.http(a_spec(gpus=9), key="k2")
        office.apply(a_queue_document(version=2, gpus=1))
        office.http(a_spec(gpus=2), key="k3")
        office.pass_ms(5000)
        return [(one.emits, one.changes, one.writes) for one in office.outcomes]

    assert play() == play()


def test_a_submission_that_cannot_be_read_is_answered_to_its_team():
    topic = team_submissions(TEAM).name
    error = FieldError(field="spec.name", value="5", rule="Expected `str`, got `int`")
    message = received(SubmissionMalformed(errors=(error,)), topic, key="k1")

    outcome = AdmissionHandler().decide([message], 1_000)

    answer = only(outcome, SubmissionAnswered)
    assert ("rejected", "k1", ID) == (answer.outcome, answer.idempotency_key, answer.workload_id)
    assert (error,) == answer.errors
    assert "spec.name: Expected" in answer.message
    assert team_results(TEAM) == outcome.emits[0].topic


def test_a_team_has_no_more_alive_than_it_may_and_again_when_some_have_ended():
    office = Office()
    office.apply(a_team_document(version=2, max_pending=2))
    counted = EndedWorkloadsCounted(team=TEAM, ended=1)

    accepted = [office.http(key="k1"), office.kafka(key="k2")]
    refused = office.kafka(key="k3")
    by_http = office.http(key="k4")
    office.decide(office.message(counted, TEAM_FACTS.name))
    office.decide(office.message(EndedWorkloadsCounted(team=TEAM, ended=0), TEAM_FACTS.name))
    later = office.http(key="k5")
    full = office.http(key="k6")

    assert all(kinds(one)[0] == "WorkloadQueued" for one in (*accepted, later))
    answer = only(refused, SubmissionAnswered)
    (error,) = answer.errors
    assert ("rejected", "max_pending", "2") == (answer.outcome, error.field, error.value)
    assert "at most 2" in error.rule
    assert kinds(by_http) == kinds(full) == ["WorkloadRejected"]


def test_what_is_refused_or_told_again_does_not_count():
    office = Office()
    office.apply(a_team_document(version=2, max_pending=2))

    office.http(key="k1")
    office.http(key="k1")
    office.http(a_spec(name="Bad"), key="k2")
    office.http(a_spec(name="other"), key="k1")

    assert kinds(office.http(key="k3")) == ["WorkloadQueued"]
