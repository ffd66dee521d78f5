"""`muster exec`: output by stream, and the exit code of the command."""

import base64
import json

import pytest

from tests.unit.cli.builders import ID
from tests.unit.cli.gateway import Answer, problem

EXEC = f"POST /v1/workloads/{ID}/exec"


def lines(*values: dict) -> Answer:
    return Answer(text="".join(f"{json.dumps(one)}\n" for one in values), kind="text/plain")


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_output_goes_where_the_command_wrote_it_and_its_exit_code_is_ours(muster, gateway):
    gateway.on(EXEC, lines({"stdout": packed("a\n")}, {"stderr": packed("b\n")}, {"exit_code": 7}))

    done = muster("exec", "--rank", "3", ID, "--", "ls", "-l")

    assert (7, "a\n", "b\n") == (done.code, done.out, done.err)
    assert {"command": ["ls", "-l"], "rank": 3} == gateway.seen[0].body


def test_options_stand_before_the_two_dashes_and_what_follows_is_the_command(muster, gateway):
    gateway.on(EXEC, lines({"exit_code": 0}))

    assert 0 == muster("exec", ID, "--rank", "3", "--", "ls", "--rank", "4").code
    assert {"command": ["ls", "--rank", "4"], "rank": 3} == gateway.seen[0].body


def test_a_command_that_could_not_run_is_a_failure_with_the_reason(muster, gateway):
    gateway.on(EXEC, lines({"error": "no such file"}))

    done = muster("exec", ID, "--", "lss")

    assert 1 == done.code
    assert "the command could not run: no such file" in done.err


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lines({"stdout": packed("a")}), 6),
        (problem(503, "away"), 6),
        (problem(409, "the pod does not run"), 5),
        (problem(403, "viewers may not"), 4),
    ],
)
def test_without_an_end_it_fails_and_is_not_sent_again(muster, gateway, answer, code):
    gateway.on(EXEC, answer)

    assert code == muster("exec", ID, "--", "true").code
    assert 1 == len(gateway.requests(EXEC))
