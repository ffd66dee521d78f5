"""How the API server tells the end of a command that ran in a pod."""

import json

import pytest

from shared.adapters.kubernetes.pod_exec import ended_of
from shared.ports.pod_exec import CommandEnded

FAILED = "command terminated with non-zero exit code: exit status 7"


def status(text: str, message: str = "", **details) -> bytes:
    return json.dumps(
        {"metadata": {}, "status": text, "message": message, "details": details or None}
    ).encode()


@pytest.mark.parametrize(
    ("told", "end"),
    [
        (status("Success"), CommandEnded(0)),
        (
            status("Failure", FAILED, causes=[{"reason": "ExitCode", "message": "7"}]),
            CommandEnded(7, FAILED),
        ),
        (
            status("Failure", "no", causes=[{"reason": "ExitCode", "message": "seven"}]),
            CommandEnded(None, "no"),
        ),
        (
            status("Failure", "executable file not found"),
            CommandEnded(None, "executable file not found"),
        ),
        (b"not JSON", CommandEnded(None, "not JSON")),
    ],
)
def test_the_end_is_an_exit_code_or_the_words_of_the_kubelet(told, end):
    assert end == ended_of(told)
