"""What would become of documents, one after the other, without anything becoming so."""

from __future__ import annotations

from typing import Any

from services.gateway.documents.documents import Organisation, default_documents
from services.gateway.documents.organisation_views import (
    DocumentKind,
    RehearsedDocument,
    WantedDocument,
)
from services.gateway.organisation.rehearsing import Rehearsing
from shared.events.organisation import FlavorApplied, QueueApplied, TeamApplied
from shared.events.quotas import FlavorQuota


def an_organisation() -> Organisation:
    organisation = Organisation(version=7)
    organisation.flavors["h100"] = FlavorApplied(name="h100", version=1)
    organisation.teams["red"] = TeamApplied(name="red", version=1, default_queue="red")
    quota = (FlavorQuota(flavor="h100"),)
    organisation.queues["red"] = QueueApplied(name="red", version=4, team="red", flavors=quota)
    for one in default_documents():
        organisation.priority_classes[one.name] = one
    return organisation


def rehearsed(*wanted: tuple[str, str, dict[str, Any]], **options: Any) -> list[RehearsedDocument]:
    rehearsing = Rehearsing(an_organisation(), **options)
    return [
        rehearsing.apply(WantedDocument(kind=DocumentKind(kind), name=name, fields=fields))
        for kind, name, fields in wanted
    ]


def results(*wanted: tuple[str, str, dict[str, Any]], **options: Any) -> list[str]:
    return [one.result.value for one in rehearsed(*wanted, **options)]


def test_each_document_is_judged_as_if_those_before_it_were_applied():
    documents: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("Cohort", "all", {"weight": 2}),
        ("Team", "blue", {}),
        ("Queue", "blue", {"team": "blue", "cohort": "all"}),
        ("Queue", "red", {"weight": 1}),
        ("Queue", "red", {"weight": 2}),
    )

    assert results(*documents) == ["created", "created", "created", "unchanged", "changed"]
    assert results(*documents[2:]) == ["refused", "unchanged", "changed"]


def test_what_a_document_does_not_name_stays():
    (held,) = rehearsed(("Queue", "red", {"held": True}))

    assert held.before is not None
    assert held.after == {**held.before, "held": True}
    assert [one["flavor"] for one in held.after["flavors"]] == ["h100"]
    assert {"name", "version"}.isdisjoint(held.after)


def test_the_same_document_twice_is_compared_with_what_it_was_made():
    first, second = rehearsed(("Cohort", "c", {"weight": 2}), ("Cohort", "c", {"weight": 3}))

    assert (first.before, second.before) == (None, first.after)
    assert second.after is not None
    assert second.after["weight"] == 3


def test_what_is_refused_tells_every_rule_and_counts_for_nothing():
    first, second = rehearsed(
        ("Queue", "red", {"weight": 0, "cohort": "nowhere"}), ("Queue", "red", {})
    )

    assert first.result.value == "refused"
    assert {error.field for error in first.errors} == {"weight", "cohort"}
    assert (first.after, second.result.value) == (None, "unchanged")


def test_a_field_that_there_is_not_is_refused():
    (unknown,) = rehearsed(("Team", "red", {"max_pendin": 1}))

    assert [error.field for error in unknown.errors] == ["max_pendin"]


def test_protection_is_taken_away_only_by_force():
    wanted = ("PriorityClass", "inference-production", {"protected": False})

    (refused,) = rehearsed(wanted)

    assert [error.field for error in refused.errors] == ["protected"]
    assert results(wanted, force=True) == ["changed"]


def test_nothing_becomes_so():
    organisation = an_organisation()

    rehearsing = Rehearsing(organisation)
    for name in ("blue", "green"):
        rehearsing.apply(WantedDocument(kind=DocumentKind("Team"), name=name))

    assert organisation == an_organisation()
