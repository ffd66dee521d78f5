"""What keeps a document from being deleted."""

from __future__ import annotations

import pytest

from services.gateway.documents.document_rules import problems_of
from services.gateway.documents.documents import (
    Applied,
    Organisation,
    default_documents,
    organisation_of,
)
from services.gateway.organisation.uses import kind_of, named_by, title_of
from shared.events.organisation import (
    CohortApplied,
    FlavorApplied,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
)
from shared.events.quotas import FlavorQuota

QUOTA = (FlavorQuota(flavor="h100"),)


def an_organisation() -> Organisation:
    organisation = Organisation()
    documents: list[Applied] = [
        FlavorApplied(name="h100", version=1),
        FlavorApplied(name="a100", version=1),
        CohortApplied(name="all", version=1, flavors=QUOTA),
        CohortApplied(name="lab", version=1, parent="all"),
        TeamApplied(name="red", version=1, default_queue="red", priority_classes=("gold",)),
        QueueApplied(name="red", version=1, team="red", cohort="all", flavors=QUOTA),
        QueueApplied(name="night", version=1, team="red", cohort="lab"),
        PriorityClassApplied(name="gold", version=1, value=9),
        *default_documents(),
    ]
    for one in documents:
        organisation.of(kind_of(one))[one.name] = one
    return organisation


@pytest.mark.parametrize(
    ("kind", "name", "users"),
    [
        ("flavor", "h100", ["Cohort/all has quota in it", "Queue/red has quota in it"]),
        ("flavor", "a100", []),
        ("cohort", "all", ["Cohort/lab has it as parent", "Queue/red is in it"]),
        ("cohort", "lab", ["Queue/night is in it"]),
        ("team", "red", ["Queue/night belongs to it"]),
        ("queue", "red", ["Team/red has it as default_queue; it is deleted with the team"]),
        ("queue", "night", []),
        ("priority_class", "gold", ["Team/red may use it by its priority_classes"]),
        (
            "priority_class",
            "training-batch",
            ["Muster has it built in; it can be changed, not deleted"],
        ),
    ],
)
def test_documents_that_name_it_are_told(kind: str, name: str, users: list[str]):
    organisation = an_organisation()

    found = named_by(organisation, organisation.of(kind)[name])

    assert [f"{one.value} {one.rule}" for one in found] == users


def test_a_queue_of_a_team_that_there_is_not_is_named_by_none():
    organisation = an_organisation()
    queue = organisation.queues["red"]
    organisation.teams.clear()

    assert list(named_by(organisation, queue)) == []


def test_a_row_without_a_body_is_a_document_that_was_deleted():
    row = {"kind": "queue", "name": "old", "version": 4, "body": ""}

    organisation = organisation_of([row], 7)

    assert organisation.queues == {}
    assert organisation.version_of("queue", "old") == 4
    assert organisation.version_of("queue", "new") == 0
    assert organisation.copy() == organisation


def test_the_name_of_a_deleted_queue_is_no_cohorts_and_the_other_way_round():
    organisation = an_organisation()
    organisation.deleted = {("queue", "a"): 2, ("cohort", "b"): 2}

    def rules(document: Applied) -> list[tuple[str, str]]:
        return [(one.field, one.rule.split(";")[0]) for one in problems_of(document, organisation)]

    assert rules(CohortApplied(name="a", version=0)) == [("name", "was the name of a queue")]
    assert rules(CohortApplied(name="b", version=0)) == []
    assert rules(QueueApplied(name="b", version=0, team="red")) == [
        ("name", "was the name of a cohort")
    ]
    assert rules(QueueApplied(name="a", version=0, team="red")) == []
    assert rules(TeamApplied(name="b", version=0, default_queue="b")) == [
        ("default_queue", "was the name of a cohort")
    ]


def test_kinds_have_their_titles():
    assert title_of(PriorityClassApplied(name="gold", version=1, value=1)) == "PriorityClass"
