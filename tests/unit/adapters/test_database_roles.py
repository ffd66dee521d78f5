"""Roles of the database from standard input: what cannot stand in a URL or in SQL is refused."""

import io
import sys

import pytest

from shared.adapters.postgres import roles


def test_each_line_is_a_role_and_its_password():
    assert roles.passwords_of("muster_quota=a1\n\nmuster_operations=b.~-_2\n") == {
        "muster_quota": "a1",
        "muster_operations": "b.~-_2",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("muster_quota=a'; DROP TABLE x", "line 1: the password of muster_quota"),
        ("muster_quota=a/b", "the password of muster_quota"),
        ("a=1\nmuster_quota", "line 2: the password of muster_quota"),
        ("Muster-Quota=a", "line 1: 'Muster-Quota'"),
    ],
)
def test_what_would_have_to_be_quoted_is_refused_with_its_line(text: str, told: str):
    with pytest.raises(ValueError, match="line") as refused:
        roles.passwords_of(text)

    assert told in str(refused.value)


def test_a_refusal_shows_no_password(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["roles", "apply"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("muster_quota=sec'ret\n"))

    assert roles.main() == 5
    assert "sec" not in capsys.readouterr().err


def test_all_but_the_reader_have_bounds_on_what_they_hold():
    limited = [line for line in roles.role_sql("muster_quota", "x") if "statement_timeout" in line]
    reader = [line for line in roles.role_sql(roles.READER, "x") if "timeout" in line]

    assert (len(limited), reader) == (1, [])
