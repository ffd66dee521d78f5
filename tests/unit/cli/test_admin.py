"""`muster admin`: documents made so, and API keys."""

import json
from pathlib import Path
from unittest import mock

import pytest

from muster.cli.application import run
from muster.client import AsyncClient
from tests.unit.cli.builders import write
from tests.unit.cli.gateway import Answer, FakeGateway, problem


def organisation(folder: Path) -> str:
    return write(
        folder,
        {"kind": "ApiKey", "name": "ci", "team": "vision", "role": "member"},
        {"kind": "Queue", "name": "vision", "team": "vision", "weight": 2},
        {"kind": "Team", "name": "vision", "max_pending": 10},
    )


def test_apply_creates_in_the_order_in_which_documents_need_each_other(
    muster, gateway: FakeGateway, tmp_path
):
    gateway.on("PATCH /v1/teams/vision", Answer({"version": 1}, 201))
    gateway.on("PATCH /v1/queues/vision", Answer({"version": 1}, 201))
    gateway.on("GET /v1/teams/vision/keys", {"items": [], "next_cursor": ""})
    gateway.on("POST /v1/teams/vision/keys", Answer({"key": "mk_new", "prefix": "p"}, 201))

    done = muster("admin", "apply", "-f", organisation(tmp_path), "-o", "json")

    results = json.loads(done.out)["items"]
    assert [(one["document"], one["result"]) for one in results] == [
        ("Team/vision", "created"),
        ("Queue/vision", "created"),
        ("ApiKey/ci", "created"),
    ]
    assert results[-1]["key"] == "mk_new"
    (put,) = gateway.requests("PATCH /v1/teams/vision")
    assert put.body == {"max_pending": 10}
    assert put.headers["If-None-Match"] == "*"


def test_the_key_of_a_new_team_is_shown_once_with_what_to_do(muster, gateway, tmp_path):
    team = write(tmp_path, {"kind": "Team", "name": "vision"})
    gateway.on("PATCH /v1/teams/vision", Answer({"version": 1, "key": "mk_first"}, 201))

    created = muster("admin", "apply", "-f", team)
    gateway.on("GET /v1/teams/vision", Answer({"version": 1}, 200, {"ETag": '"1"'}))
    gateway.on("PATCH /v1/teams/vision", Answer({"version": 1}))
    again = muster("admin", "apply", "-f", team)

    assert "mk_first" in created.out
    assert "muster admin keys create" in created.err
    assert "unchanged" in again.out
    assert "mk_" not in again.out + again.err
    assert "Keep" not in again.err


KAFKA_USER = {
    "bootstrap": "broker:9093",
    "security_protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-512",
    "user": "muster-team-vision",
    "password": "once",
    "submissions_topic": "muster.submission-vision.commands.v1",
    "results_topic": "muster.result-vision.facts.v1",
    "consumer_group": "muster-team-vision",
}


def test_how_a_new_team_connects_to_kafka_is_shown_once(muster, gateway, tmp_path):
    team = write(tmp_path, {"kind": "Team", "name": "vision"})
    made = {"version": 1, "key": "mk_first", "kafka_user": KAFKA_USER}
    gateway.on("PATCH /v1/teams/vision", Answer(made, 201))

    table = muster("admin", "apply", "-f", team)
    document = muster("admin", "apply", "-f", team, "-o", "json")

    assert 'username="muster-team-vision" password="once";' in table.err
    assert "once" not in table.out
    assert KAFKA_USER == json.loads(document.out)["items"][0]["kafka_user"]


def test_a_new_kafka_password_comes_as_properties_of_a_client(muster, gateway):
    gateway.on("POST /v1/teams/vision/kafka-password", Answer(KAFKA_USER, 201))

    shown = muster("admin", "kafka-password", "-t", "vision")
    document = muster("admin", "kafka-password", "-t", "vision", "-o", "json")

    lines = dict(line.split("=", 1) for line in shown.out.splitlines() if line[0] != "#")
    assert "broker:9093" == lines["bootstrap.servers"]
    assert "SCRAM-SHA-512" == lines["sasl.mechanism"]
    assert lines["sasl.jaas.config"].endswith('username="muster-team-vision" password="once";')
    assert "not shown again" in shown.err
    assert KAFKA_USER == json.loads(document.out)


def test_apply_again_changes_nothing_and_says_so(muster, gateway, tmp_path):
    for path in ("teams", "queues"):
        gateway.on(f"GET /v1/{path}/vision", Answer({"version": 3}, 200, {"ETag": '"3"'}))
        gateway.on(f"PATCH /v1/{path}/vision", Answer({"version": 3 + (path == "queues")}))
    key = {"label": "ci", "role": "member", "prefix": "p", "revoked_at_ms": None}
    gateway.on("GET /v1/teams/vision/keys", {"items": [key], "next_cursor": ""})

    done = muster("admin", "apply", "-f", organisation(tmp_path), "-o", "json")

    results = [one["result"] for one in json.loads(done.out)["items"]]
    assert results == ["unchanged", "changed", "unchanged"]
    assert gateway.requests("PATCH /v1/teams/vision")[0].headers["If-Match"] == '"3"'
    assert gateway.requests("POST /v1/teams/vision/keys") == []


def test_apply_tells_when_somebody_was_faster(muster, gateway, tmp_path):
    gateway.on("GET /v1/teams/vision", Answer({"version": 3}, 200, {"ETag": '"3"'}))
    gateway.on("PATCH /v1/teams/vision", problem(412, "version 4 is in force"))

    done = muster("admin", "apply", "-f", write(tmp_path, {"kind": "Team", "name": "vision"}))

    assert done.code == 5
    assert "Apply again" in done.err
    assert "refused" in done.out


def test_protection_is_taken_away_by_force_and_with_a_warning(muster, gateway, tmp_path):
    path = "/v1/priority-classes/gold"
    file = write(tmp_path, {"kind": "PriorityClass", "name": "gold", "protected": False})
    before = {"version": 1, "protected": True}
    gateway.on(f"GET {path}", Answer(before, 200, {"ETag": '"1"'}))
    told = problem(409, "2 workloads can be evicted; say --force")
    gateway.on(f"PATCH {path}", told, Answer({"version": 2, "protected": False}))

    refused = muster("admin", "apply", "-f", file)
    forced = muster("admin", "apply", "-f", file, "--force")

    asked = [request.query for request in gateway.requests(f"PATCH {path}")]
    assert (5, 0) == (refused.code, forced.code)
    assert "2 workloads can be evicted; say --force" in refused.err
    assert [{}, {"force": "true"}] == asked
    assert "Warning" not in refused.err
    assert "Warning: work of priority class gold can be evicted" in forced.err


TEAM = {"kind": "Team", "name": "vision"}
QUEUE = {"kind": "Queue", "name": "vision", "team": "vision"}
FIRST = {"version": 1, "key": "mk_first"}


@pytest.mark.parametrize(
    ("later", "told"),
    [
        ({"kind": "ApiKey", "name": "ci", "role": "member"}, "ApiKey ci needs a `team`"),
        ({"kind": "ApiKey", "name": "ci", "team": ""}, "ApiKey ci needs a `team`"),
        ({"kind": "Queue", "name": ""}, "a document of kind Queue needs a `name`"),
        ({"kind": "Queue", "name": "q", "weight": float("inf")}, "document 2: weight: must be"),
    ],
)
def test_apply_sends_nothing_before_all_documents_are_checked(
    muster, gateway, tmp_path, later, told
):
    gateway.on("PATCH /v1/teams/vision", Answer(FIRST, 201))

    done = muster("admin", "apply", "-f", write(tmp_path, TEAM, later))

    assert 2 == done.code
    assert told in done.err
    assert [] == gateway.seen


@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError("a fault of the program")])
def test_whatever_ends_an_apply_the_secrets_of_what_was_made_are_shown(
    muster, gateway, tmp_path, monkeypatch, *, capsys, ending
):
    gateway.on("PATCH /v1/teams/vision", Answer(FIRST | {"kafka_user": KAFKA_USER}, 201))
    gateway.on("GET /v1/queues/vision", {"version": 1})
    ended = mock.AsyncMock(side_effect=ending)
    of_teams = AsyncClient.apply

    async def apply(client: AsyncClient, collection: str, name: str, *arguments, **more):
        of = of_teams if collection == "teams" else ended
        return await of(client, collection, name, *arguments, **more)

    monkeypatch.setattr(AsyncClient, "apply", apply)
    with pytest.raises((SystemExit, RuntimeError)):
        run(["admin", "apply", "-f", write(tmp_path, TEAM, QUEUE)])

    out, err = capsys.readouterr()
    assert "mk_first" in out
    assert 'password="once";' in err


def test_apply_by_name_tells_new_keys_beside_the_names(muster, gateway, tmp_path):
    gateway.on("PATCH /v1/teams/vision", Answer(FIRST, 201))

    done = muster("admin", "apply", "-f", write(tmp_path, TEAM), "-o", "name")

    assert "Team/vision\n" == done.out
    assert "Team/vision: mk_first\n" in done.err


def test_a_key_is_not_cut_off_at_the_edge_of_a_terminal(muster, gateway, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    key = f"mk_abcdefgh_{'s' * 43}"
    gateway.on("PATCH /v1/teams/vision", Answer(FIRST | {"key": key}, 201))

    done = muster("admin", "apply", "-f", write(tmp_path, TEAM))

    assert key in done.out


def test_apply_stops_where_nobody_answers_and_says_what_was_not_tried(muster, gateway, tmp_path):
    gateway.on("PATCH /v1/teams/vision", Answer(FIRST, 201))
    gateway.on("GET /v1/queues/vision", problem(503, "away"))

    done = muster("admin", "apply", "-f", write(tmp_path, TEAM, QUEUE, QUEUE | {"name": "other"}))

    assert 6 == done.code
    assert "mk_first" in done.out
    assert "Not tried: 1 more." in done.err


def test_the_highest_code_of_what_an_apply_refused_is_its_exit(muster, gateway, tmp_path):
    gateway.on("PATCH /v1/teams/vision", problem(412, "version 4 is in force"))
    gateway.on("PATCH /v1/queues/vision", problem(404, "no such team"))

    assert 5 == muster("admin", "apply", "-f", write(tmp_path, TEAM, QUEUE)).code


def test_apply_names_the_kinds_there_are(muster, tmp_path):
    done = muster("admin", "apply", "-f", write(tmp_path, {"kind": "Tema", "name": "x"}))

    assert done.code == 2
    assert "PriorityClass" in done.err
