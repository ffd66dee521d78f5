"""Submissions become verdicts once, through either door, and no team has too many alive."""

import pytest
from msgspec.structs import replace

from services.admission.handler import AdmissionHandler
from shared.core.model.decision import FieldError
from shared.events.malformed import SubmissionMalformed
from shared.events.quotas import EndedWorkloadsCounted
from shared.events.topics import (
    QUEUE_FACTS,
    SUBMISSION_COMMANDS,
    TEAM_FACTS,
    team_results,
    team_submissions,
)
from shared.events.workloads import (
    SubmissionAnswered,
    SubmissionConflicted,
    SubmitWorkload,
    WorkloadQueued,
    WorkloadRejected,
)
from tests.unit.admission.builders import QUEUE, TEAM, a_spec
from tests.unit.admission.support import (
    ID,
    Office,
    a_team_document,
    kinds,
    only,
    received,
    rows_of,
)


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
    assert answer.source_offset == outcome.emits[1].cause.offset > 0


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


def test_the_time_of_submission_is_what_the_gateway_says():
    command = SubmitWorkload(workload_id=ID, team=TEAM, spec=a_spec(), submitted_at_ms=999)

    outcome = Office().command(command)

    assert only(outcome, WorkloadQueued).workload.submitted_at_ms == 999


def test_records_of_a_team_in_one_millisecond_keep_their_order_whatever_they_claim():
    office, topic = Office(), team_submissions(TEAM).name
    command = SubmitWorkload(spec=a_spec(), submitted_at_ms=5)

    outcome = office.decide(*(office.message(command, topic, key=f"k{n}") for n in range(5)))

    queued = [one.payload for one in outcome.emits if isinstance(one.payload, WorkloadQueued)]
    assert [1_000, 1_001, 1_002, 1_003, 1_004] == [one.workload.submitted_at_ms for one in queued]


def test_both_doors_make_one_workload():
    office = Office()
    office.http()

    again = office.kafka()

    assert kinds(again) == ["SubmissionAnswered"]
    assert only(again, SubmissionAnswered).outcome == "accepted"
    assert again.changes == []
    assert rows_of(again, "workload") == []


@pytest.mark.parametrize(
    ("topic", "told"),
    [(SUBMISSION_COMMANDS.name, "key ci"), (team_submissions(TEAM).name, "")],
)
def test_the_caller_is_told_on_but_for_what_a_team_says_on_its_own_topic(topic: str, told: str):
    office = Office()
    command = SubmitWorkload(workload_id=ID, team=TEAM, spec=a_spec(), by="key ci")

    fact = only(office.decide(office.message(command, topic, key="k")), WorkloadQueued)

    assert told == fact.by


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

    assert second == replace(first, source_offset=second.source_offset)
    assert second.source_offset > first.source_offset
    assert second.errors[0].field == "name"


def test_a_submission_without_an_id_goes_to_the_dead_letters():
    outcome = Office().command(SubmitWorkload(team=TEAM, spec=a_spec()))

    assert "workload_id" in outcome.dead[0][1]


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


@pytest.mark.parametrize("key", ["ключ", "x" * 201, ""])
def test_a_submission_whose_key_is_none_is_answered_by_its_place(key):
    topic = team_submissions(TEAM).name
    error = FieldError(field="ce_id", value=key[:100], rule="must be printable")
    message = received(SubmissionMalformed(errors=(error,)), topic, offset=17, key=key)

    answer = only(AdmissionHandler().decide([message], 1_000), SubmissionAnswered)

    assert ("rejected", "", 17) == (answer.outcome, answer.workload_id, answer.source_offset)
    assert key[:200] == answer.idempotency_key


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
