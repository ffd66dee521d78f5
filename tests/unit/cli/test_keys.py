"""API keys: made, listed and revoked, and what a document of kind ApiKey makes so."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.builders import write
from tests.unit.cli.gateway import Answer, problem

KEYS = "/v1/teams/vision/keys"
DAY = 86_400
NOW_MS = 2_000_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The user's clock stands."""
    monkeypatch.setattr("muster.cli.keys.now_ms", lambda: NOW_MS)


def a_key(
    prefix: str = "ab12", *, role: str = "viewer", days: int | None = None, **more: Any
) -> dict:
    """A key of an hour ago; `days` is its life."""
    created = NOW_MS - 3_600_000
    expires = created + days * DAY * 1000 + 3 if days is not None else None
    key = {"prefix": prefix, "label": "ci", "role": role, "created_at_ms": created}
    return key | {"expires_at_ms": expires, "revoked_at_ms": None} | more


EXPIRED: dict[str, Any] = {"expires_at_ms": NOW_MS}
REVOKED: dict[str, Any] = {"revoked_at_ms": NOW_MS}


def a_document(folder: Path, **more) -> str:
    return write(
        folder, {"kind": "ApiKey", "name": "ci", "team": "vision", "role": "viewer", **more}
    )


def listed(gateway, *keys: dict) -> None:
    gateway.on(f"GET {KEYS}", {"items": list(keys), "next_cursor": ""})
    gateway.on(f"POST {KEYS}", Answer({"key": "mk_new", "prefix": "p"}, 201))


def test_all_that_a_document_says_of_a_key_is_sent(muster, gateway, tmp_path):
    listed(gateway)

    done = muster("admin", "apply", "-f", a_document(tmp_path, expires_in_seconds=DAY, roel="x"))

    (sent,) = gateway.requests(f"POST {KEYS}")
    assert {"role": "viewer", "label": "ci", "expires_in_seconds": DAY, "roel": "x"} == sent.body
    assert "mk_new" in done.out


def test_a_field_that_the_service_does_not_know_is_refused_by_it(muster, gateway, tmp_path):
    gateway.on(f"GET {KEYS}", {"items": [], "next_cursor": ""})
    error = {"field": "roel", "value": "x", "rule": "is not a field"}
    gateway.on(f"POST {KEYS}", problem(400, "not valid", errors=[error]))

    done = muster("admin", "apply", "-f", a_document(tmp_path, roel="x"))

    assert 5 == done.code
    assert "roel: is not a field" in done.err


@pytest.mark.parametrize("end", [EXPIRED, REVOKED])
def test_a_key_that_is_expired_or_revoked_is_made_anew(muster, gateway, tmp_path, end):
    listed(gateway, a_key(**end))

    done = muster("admin", "apply", "-f", a_document(tmp_path))

    assert 1 == len(gateway.requests(f"POST {KEYS}"))
    assert ["ApiKey/ci", "created", "mk_new"] == done.out.splitlines()[1].split()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (a_key(days=1), {"expires_in_seconds": DAY}),
        (a_key(), {}),
        (a_key(), {"expires_in_seconds": None}),
        (a_key(), {"label": "ci"}),
        (a_key(role="member"), {"role": "member"}),
    ],
)
def test_a_valid_key_that_is_what_the_document_says_stays(muster, gateway, tmp_path, key, said):
    listed(gateway, key, a_key("other", label="x"))

    done = muster("admin", "apply", "-f", a_document(tmp_path, **said))

    assert 0 == done.code
    assert "unchanged" in done.out


@pytest.mark.parametrize(
    ("key", "said", "told"),
    [
        (a_key(role="admin"), {}, "has role admin, the document says viewer"),
        (a_key(), {"expires_in_seconds": DAY}, "expires never, the document says 86400 s after"),
        (a_key(days=2), {}, "expires 172800 s after it was made, the document says never"),
        (a_key(days=2), {"expires_in_seconds": DAY}, "expires 172800 s after it was made"),
        (a_key(days=2), {"expires_in_seconds": "2d"}, "the document says 2d"),
        (a_key(), {"roel": "x"}, "has no field `roel`"),
    ],
)
def test_a_valid_key_that_is_another_is_a_conflict(muster, gateway, tmp_path, key, *, said, told):
    listed(gateway, key)

    done = muster("admin", "apply", "-f", a_document(tmp_path, **said))

    assert 5 == done.code
    assert "the valid key ab12 of this label" in done.err
    assert told in done.err
    assert "muster admin keys revoke -t vision ab12" in done.err
    assert "refused" in done.out
    assert [] == gateway.requests(f"POST {KEYS}")


def test_of_two_valid_keys_of_a_label_one_that_fits_is_enough(muster, gateway, tmp_path):
    listed(gateway, a_key(role="admin"), a_key("cd34"))

    assert "unchanged" in muster("admin", "apply", "-f", a_document(tmp_path)).out


def test_a_label_that_is_not_the_name_is_refused_before_anything_is_sent(
    muster, gateway, tmp_path
):
    done = muster("admin", "apply", "-f", a_document(tmp_path, label="other"))

    assert 2 == done.code
    assert "its `name` is its label" in done.err
    assert [] == gateway.seen


def test_a_key_is_made_with_a_life(muster, gateway):
    made = {"key": "mk_new", "prefix": "p", "expires_at_ms": NOW_MS}
    gateway.on(f"POST {KEYS}", Answer(made, 201))
    make = ("admin", "keys", "create", "-t", "vision", "--label", "ci")

    done = muster(*make, "--expires", "90d")
    document = muster(*make, "--expires", "90", "-o", "json")
    wrong = muster(*make, "--expires", "soon")

    assert "mk_new\n" == done.out
    assert "and expires 2033-05-1" in done.err
    assert [90 * DAY, 90] == [one.body["expires_in_seconds"] for one in gateway.seen]
    assert made == json.loads(document.out)
    assert 2 == wrong.code
    assert "--expires 'soon'" in wrong.err


def test_the_list_says_which_keys_are_good_for_something(muster, gateway):
    listed(gateway, a_key(), a_key("b", **EXPIRED), a_key("c", **(EXPIRED | REVOKED)))

    head, *rows = muster("admin", "keys", "list", "-t", "vision", "-o", "wide").out.splitlines()

    states = [row[head.index("STATE") :].split()[0] for row in rows]
    assert ["valid", "expired", "revoked"] == states
    assert "never" in rows[0]
    assert "2033-05-1" in rows[1]


def test_a_new_key_is_the_only_thing_on_stdout(muster, gateway):
    gateway.on("POST /v1/teams/vision/keys", Answer({"key": "mk_new", "prefix": "p"}, 201))

    done = muster("admin", "keys", "create", "-t", "vision", "--label", "ci")

    assert done.out == "mk_new\n"
    assert gateway.seen[0].body == {"role": "member", "label": "ci"}


def test_keys_are_listed_without_their_secret(muster, gateway):
    key = {"prefix": "ab12", "label": "ci", "role": "member", "revoked_at_ms": 5}
    gateway.on("GET /v1/teams/vision/keys", {"items": [key], "next_cursor": ""})

    row = muster("admin", "keys", "list", "-t", "vision").out.splitlines()[1]

    assert row.split() == ["ab12", "ci", "member", "revoked"]


def test_a_key_is_revoked_by_its_prefix(muster, gateway):
    gateway.on("DELETE /v1/teams/vision/keys/ab12", Answer(None, 200))

    assert muster("admin", "keys", "revoke", "-t", "vision", "ab12").out == "ab12: revoked\n"


@pytest.mark.parametrize("given", ["ab12", "mk_ab12", "mk_ab12_s-e_cret", " mk_ab12\n"])
def test_a_key_is_revoked_by_as_much_of_it_as_one_has_and_its_secret_stays_here(
    muster, gateway, given
):
    gateway.on("DELETE /v1/teams/vision/keys/ab12", Answer(None, 200))

    done = muster("admin", "keys", "revoke", "-t", "vision", given)

    assert (0, "ab12: revoked\n") == (done.code, done.out)
    assert ["/v1/teams/vision/keys/ab12"] == [one.path for one in gateway.seen]


def test_what_was_revoked_is_a_document_when_asked_for(muster, gateway):
    gateway.on("DELETE /v1/teams/vision/keys/ab12", Answer(None, 200))

    done = muster("admin", "keys", "revoke", "-t", "vision", "ab12", "-o", "json")

    assert {"items": [{"prefix": "ab12", "result": "revoked"}]} == json.loads(done.out)
