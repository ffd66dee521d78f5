"""The command that replays decisions ends with a sentence when it cannot reach the system."""

from __future__ import annotations

import json
import sys

import pytest

from services.placement.offline import replay
from shared.ports.errors import Transient

ARGUMENTS = ["replay", "--database", "postgresql://nobody@127.0.0.1:1/none", "--kafka", "kafka:1"]
COUNTS = {"units": 1, "inputs": 2, "recorded": 3, "replayed": 3}


@pytest.fixture(autouse=True)
def called(monkeypatch):
    for name in ("USER", "PASSWORD", "SECURITY_PROTOCOL"):
        monkeypatch.delenv(f"MUSTER_KAFKA_{name}", raising=False)
    monkeypatch.setattr(sys, "argv", ARGUMENTS)


def ending(monkeypatch, capsys, outcome):
    """(exit code, output, error output) where the replay gives or raises `outcome`."""

    async def replayed(url, access, prefix, *, cell, seed):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(replay, "replay", replayed)
    with pytest.raises(SystemExit) as ended:
        replay.main()
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    "error",
    [
        Transient("Kafka at kafka:1: it refuses connections without a user (MUSTER_KAFKA_USER)"),
        replay.InputsMissing("5 inputs are no longer in the log (retention)"),
        ConnectionRefusedError(111, "Connect call failed"),
    ],
    ids=["nobody may log in", "the log is too short", "nothing listens"],
)
def test_what_keeps_it_from_an_answer_is_told_in_a_line(monkeypatch, capsys, error):
    code, out, told = ending(monkeypatch, capsys, error)

    assert (2, "") == (code, out)
    assert told.startswith(f"error: {error}; --database and --kafka")
    assert 1 == told.count("\n")


def test_settings_that_contradict_each_other_are_told_in_a_line(monkeypatch, capsys):
    monkeypatch.setenv("MUSTER_KAFKA_USER", "muster-reader")

    code, out, told = ending(monkeypatch, capsys, {})

    assert (2, "", 1) == (code, out, told.count("\n"))
    assert "kafka_user is wanted with a SASL security protocol" in told


@pytest.mark.parametrize(("different", "code"), [(0, 0), (1, 1)])
def test_the_answer_is_the_exit_code(monkeypatch, capsys, different, code):
    counts = {**COUNTS, "different": different}

    ended, out, told = ending(monkeypatch, capsys, counts)

    assert (code, counts, "") == (ended, json.loads(out), told)
