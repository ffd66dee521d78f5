"""What comes before its team, its queue or its nodes are known waits for them, for a time."""

from services.admission.parking import FIT_WAIT_MS, NAMES_WAIT_MS
from shared.events.envelope import workload_id
from shared.events.workloads import (
    CancelWorkload,
    WorkloadRejected,
)
from tests.unit.admission.builders import a_node, a_spec
from tests.unit.admission.support import (
    ID,
    Office,
    a_queue_document,
    a_team_document,
    kinds,
    only,
    rows_of,
)


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
