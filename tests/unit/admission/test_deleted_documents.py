"""Documents that are deleted let nothing in any more, and what was let in is told before that."""

from __future__ import annotations

from services.admission.rulebook import Rulebook
from shared.core.admission.fleet_shape import FleetShape
from shared.events.organisation import (
    CohortApplied,
    DocumentDeleted,
    PriorityClassApplied,
    QueueClosed,
)
from shared.events.topics import QUEUE_FACTS, team_submissions
from shared.events.workloads import WorkloadQueued, WorkloadRejected
from tests.unit.admission.builders import QUEUE, TEAM, a_spec
from tests.unit.admission.support import (
    Office,
    a_queue_document,
    a_team_document,
    kinds,
    only,
    rows_of,
)


def deleted(kind, name, version=2):
    return DocumentDeleted(kind=kind, name=name, version=version)


def test_nothing_is_let_into_a_queue_that_is_deleted_and_quota_hears_so_behind_all_that_was():
    office = Office()
    office.http(key="before")

    outcome = office.apply(deleted("queue", QUEUE))
    rejected = office.http(key="after")
    parked = office.pass_ms(60_000)

    (emit,) = outcome.emits
    assert (emit.topic, emit.payload) == (QUEUE_FACTS, QueueClosed(queue=QUEUE, version=2))
    (row,) = rows_of(outcome, "document")
    assert row.arguments == (["queue"], [QUEUE], [2], [""])
    assert "WorkloadQueued" not in kinds(rejected) + kinds(parked)
    (fact,) = [
        one.payload
        for one in (*rejected.emits, *parked.emits)
        if isinstance(one.payload, WorkloadRejected)
    ]
    assert fact.errors[0].field == "queue"


def test_the_same_deletion_again_or_an_older_document_changes_nothing():
    office = Office()
    office.apply(deleted("queue", QUEUE))

    again = office.apply(deleted("queue", QUEUE), a_queue_document(version=1))

    assert (again.emits, again.writes) == ([], [])


def test_a_queue_that_is_made_again_lets_work_in():
    office = Office()
    office.apply(deleted("queue", QUEUE), a_queue_document(version=3))

    assert only(office.http(), WorkloadQueued).workload.queue == QUEUE


def test_of_a_team_that_is_deleted_nothing_is_read_or_let_in():
    office = Office()
    office.apply(deleted("team", TEAM))

    names = [topic.name for topic, _ in office.handler.topics()]
    office.http()
    late = office.pass_ms(60_000)

    assert team_submissions(TEAM).name not in names
    assert only(late, WorkloadRejected).workload_id


def test_a_team_that_is_deleted_is_told_of_nothing():
    office = Office()
    office.apply(a_team_document(version=2, kafka_events=True))
    before = len(office.handler.memory.told)

    office.apply(deleted("team", TEAM, 3))

    assert (before, len(office.handler.memory.told)) == (1, 0)


def test_a_class_that_is_deleted_is_none_and_a_built_in_one_is_as_it_was_made():
    office = Office()
    gold = PriorityClassApplied(name="gold", version=1, value=7)
    office.apply(gold, PriorityClassApplied(name="training-batch", version=2, value=7))
    before = only(office.http(a_spec(priority_class="gold"), key="a"), WorkloadQueued)

    office.apply(deleted("priority_class", "gold"), deleted("priority_class", "training-batch", 3))
    office.http(a_spec(priority_class="gold"), key="b")
    rejected = office.pass_ms(60_000)
    batch = only(office.http(a_spec(priority_class="training-batch"), key="c"), WorkloadQueued)

    assert (before.workload.priority, batch.workload.priority) == (7, 100)
    assert only(rejected, WorkloadRejected).errors[0].field == "priority_class"


def test_a_cohort_that_is_deleted_lends_nothing():
    office = Office()
    lent = a_queue_document("lender", gpus=64, cohort="c")
    office.apply(CohortApplied(name="c", version=1), lent)
    office.apply(a_queue_document(version=2, gpus=1, cohort="c"))
    borrower = office.handler.memory.book.rules.queues[QUEUE]
    before = borrower.limits["h100"][0]

    office.apply(
        a_queue_document(version=3, gpus=1), deleted("queue", "lender"), deleted("cohort", "c")
    )

    assert (before, borrower.limits["h100"][0]) == (65_000, 1_000)


def test_a_flavor_that_is_deleted_is_none_of_its_business():
    outcome = Office().apply(deleted("flavor", "h100"))

    assert (outcome.emits, outcome.writes) == ([], [])


async def test_after_a_restart_what_was_deleted_is_so_and_stays_behind_old_facts():
    rows = [
        {"kind": kind, "name": name, "version": 2, "body": ""}
        for kind, name in (("queue", QUEUE), ("team", TEAM))
    ]

    class Rows:
        async def fetch(self, sql, *arguments):
            return rows if "admission.document" in sql else []

    book = Rulebook(FleetShape())
    await book.load(Rows())

    assert not book.apply(a_queue_document(version=1), 0)
    assert not book.apply(a_team_document(version=2), 0)
    assert book.apply(a_queue_document(version=3), 0)
    assert (list(book.rules.queues), book.rules.teams) == ([QUEUE], {})
