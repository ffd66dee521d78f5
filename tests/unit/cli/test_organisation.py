"""`muster admin get`, `export` and `apply --dry-run`."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from muster.cli.document_kinds import kind_of
from tests.unit.cli.builders import write
from tests.unit.cli.gateway import Answer, FakeGateway, problem

EVERYTHING = {"gpu_milli": 1 << 62, "cpu_milli": 1 << 62, "memory_mib": 1 << 62}
QUOTA = {
    "flavor": "h100",
    "nominal": {**EVERYTHING, "gpu_milli": 8000},
    "borrowing_limit": EVERYTHING,
    "lending_limit": None,
}
QUEUE = {"name": "red", "version": 4, "team": "red", "cohort": "all", "flavors": [QUOTA]}
ORGANISATION: dict[str, Any] = {
    "version": 9,
    "flavors": [{"name": "h100", "version": 1, "products": ["H100"]}],
    "priority_classes": [{"name": "gold", "version": 2, "value": 9, "protected": True}],
    "cohorts": [{"name": "all", "version": 1, "parent": "", "flavors": []}],
    "teams": [{"name": "red", "version": 3, "max_pending": 10}],
    "queues": [QUEUE],
}
VALID = {"label": "ci", "role": "member", "prefix": "p", "created_at_ms": 1_000}
UNNAMED = {**VALID, "label": ""}
REVOKED = {**VALID, "label": "old", "revoked_at_ms": 5}
BRIEF = {**VALID, "label": "brief", "expires_at_ms": 4_102_444_801_000}


@pytest.fixture
def organised(gateway: FakeGateway) -> FakeGateway:
    gateway.on("GET /v1/organisation", ORGANISATION)
    gateway.on("GET /v1/teams", {"items": ORGANISATION["teams"], "next_cursor": ""})
    keys = [VALID, UNNAMED, REVOKED, BRIEF]
    gateway.on("GET /v1/teams/red/keys", {"items": keys, "next_cursor": ""})
    return gateway


def test_an_export_holds_every_field_but_version_in_the_order_of_need(muster, organised):
    documents = list(yaml.safe_load_all(muster("admin", "export").out))

    kinds = [(one["kind"], one["name"]) for one in documents]
    assert kinds == [
        ("Flavor", "h100"),
        ("PriorityClass", "gold"),
        ("Cohort", "all"),
        ("Team", "red"),
        ("Queue", "red"),
    ]
    assert not any("version" in one for one in documents)
    assert documents[3] == {"kind": "Team", "name": "red", "max_pending": 10}


def test_an_export_names_no_unit_that_is_unlimited(muster, organised):
    (queue,) = yaml.safe_load_all(muster("admin", "export", "queues", "red").out)

    assert queue["flavors"] == [
        {
            "flavor": "h100",
            "nominal": {"gpu_milli": 8000},
            "borrowing_limit": {},
            "lending_limit": None,
        }
    ]


def test_json_is_a_list_that_can_be_applied(muster, organised, tmp_path):
    exported = muster("admin", "get", "Queue", "red", "-o", "json")
    file = tmp_path / "queue.json"
    file.write_text(exported.out)
    organised.on("GET /v1/queues/red", Answer(QUEUE, 200, {"ETag": '"4"'}))
    organised.on("PATCH /v1/queues/red", Answer(QUEUE))

    applied = muster("admin", "apply", "-f", str(file))

    assert (0, True) == (applied.code, "unchanged" in applied.out)
    (sent,) = organised.requests("PATCH /v1/queues/red")
    assert sent.body["cohort"] == "all"


def test_get_is_a_table_of_kinds_names_and_versions(muster, organised):
    lines = [line.split() for line in muster("admin", "get").out.splitlines()]
    names = muster("admin", "get", "team", "-o", "name")

    assert ["KIND", "NAME", "VERSION", "TEAM", "ABOVE"] == lines[0]
    assert ["Queue", "red", "4", "red", "all"] == lines[-1]
    assert "Team/red\n" == names.out


def test_keys_are_exported_if_they_are_valid_and_have_a_name(muster, organised):
    done = muster("admin", "export", "ApiKey")

    assert list(yaml.safe_load_all(done.out)) == [
        {"kind": "ApiKey", "name": "ci", "team": "red", "role": "member"},
        {
            "kind": "ApiKey",
            "name": "brief",
            "team": "red",
            "role": "member",
            "expires_in_seconds": 4_102_444_800,
        },
    ]
    assert "1 valid keys without a label" in done.err


def test_a_name_that_there_is_not_is_told_with_those_that_there_are(muster, organised):
    done = muster("admin", "get", "cohort", "al")

    assert (3, True) == (done.code, "Cohort al does not exist; there are: all" in done.err)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Team", "Team"),
        ("teams", "Team"),
        ("priority-class", "PriorityClass"),
        ("priority-classes", "PriorityClass"),
        ("priority_class", "PriorityClass"),
        ("PRIORITYCLASS", "PriorityClass"),
        ("apikeys", "ApiKey"),
    ],
)
def test_a_kind_is_known_however_it_is_written(text: str, kind: str):
    assert kind_of(text) == kind


def test_a_kind_that_there_is_not_is_a_usage_error(muster, organised):
    done = muster("admin", "get", "node")

    assert (2, True) == (done.code, "must be one of Flavor, PriorityClass" in done.err)


# ── apply --dry-run ──────────────────────────────────────────────────────────────────────────────


def rehearsed(kind: str, name: str, result: str, **sides: Any) -> dict[str, Any]:
    both = {"before": sides.get("before"), "after": sides.get("after")}
    return {"kind": kind, "name": name, "result": result, **both, "errors": []}


def test_a_dry_run_shows_each_line_that_would_change_and_sends_nothing_else(
    muster, organised, tmp_path
):
    before = {"team": "red", "weight": 1, "flavors": []}
    items = [
        rehearsed("Team", "red", "unchanged", before={"x": 1}, after={"x": 1}),
        rehearsed("Queue", "red", "changed", before=before, after={**before, "weight": 2}),
        rehearsed("Queue", "new", "created", after=before),
    ]
    organised.on("POST /v1/organisation:dry-run", {"items": items})
    file = write(
        tmp_path,
        {"kind": "Queue", "name": "red", "weight": 2},
        {"kind": "Team", "name": "red"},
        {"kind": "Queue", "name": "new", "team": "red"},
    )

    done = muster("admin", "apply", "-f", file, "--dry-run")

    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:2] == ["--- Queue/red now", "+++ Queue/red applied"]
    assert [one for one in lines if one[:1] in "+-" and one[:3] not in {"+++", "---"}] == [
        "-weight: 1",
        "+weight: 2",
        "+team: red",
        "+weight: 1",
        "+flavors: []",
    ]
    assert "1 created, 1 changed, 1 unchanged, 0 refused" in done.err
    (asked,) = organised.requests("POST /v1/organisation:dry-run")
    assert [one["kind"] for one in asked.body["items"]] == ["Team", "Queue", "Queue"]
    assert asked.body["items"][1] == {"kind": "Queue", "name": "red", "fields": {"weight": 2}}
    assert {one.method for one in organised.seen} == {"POST"}


def test_a_dry_run_tells_what_would_be_refused_and_why(muster, organised, tmp_path):
    error = {"field": "weight", "value": "0", "rule": "must be 1 to 1000000"}
    refused = rehearsed("Queue", "red", "refused") | {"errors": [error]}
    organised.on("POST /v1/organisation:dry-run", {"items": [refused]})
    file = write(tmp_path, {"kind": "Queue", "name": "red", "weight": 0})

    done = muster("admin", "apply", "-f", file, "--dry-run", "--force")
    document = muster("admin", "apply", "-f", file, "--dry-run", "-o", "json")

    assert (5, 5) == (done.code, document.code)
    assert "weight: must be 1 to 1000000 (given: 0)" in done.err
    assert json.loads(document.out)["items"] == [refused]
    asked = [one.query for one in organised.requests("POST /v1/organisation:dry-run")]
    assert [{"force": "true"}, {}] == asked


def test_a_dry_run_warns_of_protection_that_would_be_taken_away(muster, organised, tmp_path):
    sides = {"before": {"protected": True}, "after": {"protected": False}}
    items = [rehearsed("PriorityClass", "gold", "changed", **sides)]
    organised.on("POST /v1/organisation:dry-run", {"items": items})
    file = write(tmp_path, {"kind": "PriorityClass", "name": "gold", "protected": False})

    done = muster("admin", "apply", "-f", file, "--dry-run", "--force")

    assert "Warning: work of priority class gold could be evicted" in done.err


def test_a_dry_run_of_keys_makes_none(muster, organised, tmp_path):
    organised.on("GET /v1/teams/new/keys", problem(404, "team new does not exist"))
    file = write(
        tmp_path,
        {"kind": "ApiKey", "name": "ci", "team": "red"},
        {"kind": "ApiKey", "name": "ci", "team": "new"},
        {"kind": "ApiKey", "name": "brief", "team": "red"},
    )

    done = muster("admin", "apply", "-f", file, "--dry-run", "-o", "json")

    results = [one["result"] for one in json.loads(done.out)["items"]]
    assert (5, ["unchanged", "created", "refused"]) == (done.code, results)
    assert {one.method for one in organised.seen} == {"GET"}


# ── delete ───────────────────────────────────────────────────────────────────────────────────────


def test_a_document_is_deleted_by_kind_and_name(muster, gateway: FakeGateway):
    gateway.on("DELETE /v1/priority-classes/gold", Answer(status=204))

    done = muster("admin", "delete", "priorityclass", "gold")
    named = muster("admin", "delete", "PriorityClass", "gold", "-o", "name")

    assert (0, True) == (done.code, "PriorityClass/gold" in done.out)
    assert (0, "PriorityClass/gold\n") == (named.code, named.out)


def test_what_uses_it_is_told_line_by_line(muster, gateway: FakeGateway):
    errors = [
        {"field": "used_by", "value": "Queue/red", "rule": "is in it"},
        {"field": "used_by", "value": "Queue/blue", "rule": "is in it"},
    ]
    gateway.on("DELETE /v1/cohorts/all", problem(409, "Cohort all is used", errors=errors))

    done = muster("admin", "delete", "cohort", "all")

    assert 5 == done.code
    assert "Queue/red is in it" in done.err
    assert "Queue/blue is in it" in done.err


def test_what_there_is_not_is_not_deleted(muster, gateway: FakeGateway):
    assert 3 == muster("admin", "delete", "cohort", "none").code


def test_a_key_is_revoked_not_deleted(muster, gateway: FakeGateway):
    done = muster("admin", "delete", "apikey", "ci")

    assert (2, True) == (done.code, "muster admin keys revoke" in done.err)
    assert gateway.seen == []
