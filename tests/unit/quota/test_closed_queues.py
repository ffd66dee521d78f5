"""A deleted queue keeps its limits until nothing in it is alive, and is empty from then on."""

from __future__ import annotations

from services.quota.documents import Documents
from shared.core.model.team_policy import Budget
from shared.core.queueing.nomination.nominator import Nominator
from shared.events.organisation import (
    CohortApplied,
    DocumentDeleted,
    FlavorApplied,
    QueueClosed,
    TeamApplied,
)
from shared.events.quotas import BudgetTold, QuotaChanged
from tests.unit.quota.support import Ledger, a_workload, queue_document, short, writes


def closed(version=2, queue="q"):
    return QueueClosed(queue=queue, version=version)


def owned(ledger, name="q"):
    return ledger.handler.memory.core.tree.node(name).owned("h100")[0]


def test_a_closed_queue_without_work_is_empty_at_once():
    ledger = Ledger(CohortApplied(name="c", version=1), queue_document(cohort="c"))

    outcome = ledger.decide(closed())

    (emit,) = outcome.emits
    assert emit.payload == QuotaChanged(name="q", kind="queue", held=True, team="t", version=2)
    assert (owned(ledger), owned(ledger, "c")) == (0, 0)
    (rows,) = writes(outcome, "INSERT", "quota_node")
    assert (rows[0], rows[2], rows[5]) == (["q"], [2], [None])


def test_work_that_was_let_in_before_runs_under_the_limits_of_before():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    first = ledger.decide(closed())
    placed = ledger.place("w1")
    kept = owned(ledger)

    last = ledger.succeed("w1")

    (rows,) = writes(first, "INSERT", "quota_node")
    assert (short(first), rows[5]) == ([], [2])
    assert (short(placed), kept) == ([], 8000)
    assert "QuotaChanged:q" in short(last)
    assert owned(ledger) == 0


def test_work_of_a_closed_queue_that_is_heard_of_with_it_is_nominated():
    ledger = Ledger(queue_document())

    outcome = ledger.queue(a_workload("w1"))
    later = ledger.decide(closed())

    assert (short(outcome), short(later)) == (["WorkloadNominated:w1"], [])


def test_a_queue_that_is_made_again_before_it_is_empty_stays():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.decide(closed())

    again = ledger.apply(queue_document(version=3, gpus=4))
    ledger.place("w1")
    last = ledger.succeed("w1")

    (rows,) = writes(again, "INSERT", "quota_node")
    assert (rows[2], rows[5]) == ([3], [None])
    assert "QuotaChanged:q" not in short(last)
    assert owned(ledger) == 4000


def test_a_deletion_that_is_told_late_or_again_changes_nothing():
    ledger = Ledger(queue_document(version=3))

    late = ledger.decide(closed(version=2))
    ledger.decide(closed(version=4))
    again = ledger.decide(closed(version=4))

    assert (late.emits, late.writes, again.emits, again.writes) == ([], [], [], [])


def test_a_document_that_is_heard_after_its_deletion_is_old():
    ledger = Ledger()

    first = ledger.decide(closed())
    late = ledger.apply(queue_document(version=1))

    assert (short(first), short(late), owned(ledger)) == (["QuotaChanged:q"], [], 0)


def test_a_cohort_is_empty_once_its_last_queue_has_left():
    pool = queue_document().flavors
    ledger = Ledger(CohortApplied(name="c", version=1, flavors=pool), queue_document(cohort="c"))
    ledger.queue(a_workload("w1"))
    ledger.decide(closed())

    waits = ledger.apply(DocumentDeleted(kind="cohort", name="c", version=2))
    kept = owned(ledger, "c")
    ledger.place("w1")
    last = ledger.succeed("w1")

    assert (short(waits), kept) == ([], 16_000)
    assert "QuotaChanged:c" in short(last)
    assert owned(ledger, "c") == 0


def test_a_cohort_that_is_deleted_before_its_queue_is_empty_with_it():
    pool = queue_document().flavors
    ledger = Ledger(CohortApplied(name="c", version=1, flavors=pool), queue_document(cohort="c"))

    waits = ledger.apply(DocumentDeleted(kind="cohort", name="c", version=2))
    last = ledger.decide(closed())

    assert (short(waits), short(last)) == ([], ["QuotaChanged:q", "QuotaChanged:c"])
    assert owned(ledger, "c") == 0


async def test_after_a_restart_it_is_still_to_be_emptied():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    (rows,) = writes(ledger.decide(closed()), "INSERT", "quota_node")
    row = {"kind": "queue", "revision": 1, "body": rows[4][0], "closed_version": rows[5][0]}

    class Rows:
        async def fetch(self, sql):
            return [row] if "quota_node" in sql else []

    documents = Documents(Nominator())
    await documents.load(Rows())

    assert documents.empty_unused(lambda queue: queue == "q") == []
    (node,) = documents.empty_unused(lambda _: False)
    assert (node.name, node.owned("h100")[0]) == ("q", 0)


def test_the_budget_of_a_deleted_team_is_none():
    budget = Budget(gpu_hours_per_month=1)
    ledger = Ledger(TeamApplied(name="t", version=1, default_queue="q", budget=budget))

    outcome = ledger.apply(DocumentDeleted(kind="team", name="t", version=2))

    (told,) = [one.payload for one in outcome.emits]
    assert isinstance(told, BudgetTold)
    assert told.limit_gpu_milli_hours is None


def test_a_deleted_flavor_is_spot_no_more():
    ledger = Ledger(FlavorApplied(name="h100", version=1, spot=True))
    before = ledger.handler.memory.core.spot_flavors()

    ledger.apply(DocumentDeleted(kind="flavor", name="h100", version=2))
    ledger.apply(FlavorApplied(name="h100", version=1, spot=True))

    assert (before, ledger.handler.memory.core.spot_flavors()) == (("h100",), ())


def test_a_deleted_queue_waits_for_admission_and_a_class_says_nothing():
    ledger = Ledger(queue_document())

    outcome = ledger.apply(
        DocumentDeleted(kind="queue", name="q", version=2),
        DocumentDeleted(kind="priority_class", name="gold", version=2),
    )

    assert (outcome.emits, outcome.writes, owned(ledger)) == ([], [], 8000)
