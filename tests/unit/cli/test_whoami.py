"""`muster whoami`: whose key it is, and who answers."""

import json
from importlib.metadata import version

import yaml

from tests.unit.cli.gateway import problem

CALLER = {
    "team": "vision",
    "role": "member",
    "key_prefix": "abcdefgh",
    "key_label": "nightly-ci",
    "expires_at_ms": 1_790_000_000_000,
    "version": "9.9.9",
}


def lines(text: str) -> dict[str, str]:
    return {
        name: rest.strip() for name, _, rest in (one.partition("  ") for one in text.split("\n"))
    }


def test_a_person_sees_team_role_key_address_and_versions(muster, gateway):
    gateway.on("GET /v1/whoami", CALLER)

    found = lines(muster("whoami").out)

    assert ("vision", "member") == (found["team"], found["role"])
    assert "abcdefgh, nightly-ci" == found["key"]
    assert found["expires"].startswith("2026-09-")
    assert gateway.address == found["address"]
    assert ("9.9.9", version("muster-gpu")) == (found["server"], found["client"])


def test_an_operators_key_without_label_or_end_says_so(muster, gateway):
    operator = {"team": "", "role": "operator", "key_label": "", "expires_at_ms": None}
    gateway.on("GET /v1/whoami", CALLER | operator)

    found = lines(muster("whoami").out)

    assert "none, the key is an operator's" == found["team"]
    assert "abcdefgh, without a label" == found["key"]
    assert "never" == found["expires"]


def test_programs_get_all_of_it(muster, gateway):
    gateway.on("GET /v1/whoami", CALLER)

    found = json.loads(muster("whoami", "-o", "json").out)

    assert CALLER.items() <= found.items()
    assert gateway.address == found["address"]
    assert found == yaml.safe_load(muster("whoami", "-o", "yaml").out)
    assert "abcdefgh\n" == muster("whoami", "-o", "name").out


def test_a_key_that_is_unknown_exits_with_four(muster, gateway):
    gateway.on("GET /v1/whoami", problem(401, "the key is unknown, expired or revoked"))

    assert 4 == muster("whoami").code
