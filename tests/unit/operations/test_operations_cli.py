"""`muster-ops`: a failure is one line and exit code 2, never a traceback."""

import sys
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest
from aiokafka.errors import TopicAuthorizationFailedError

from operations.cli import main
from shared.ports.errors import Rejected, Transient
from tests.support.commands import Done, ended

Run = Callable[..., Done]


@pytest.fixture
def muster_ops(capsys, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call `muster-ops ...` in this process, with addresses at which nobody is."""
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://127.0.0.1:1/nobody")
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "127.0.0.1:1")

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["muster-ops", *arguments])
        return ended(capsys, main)

    return call


def failing(error: BaseException) -> Callable[..., Any]:
    async def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [
        Transient("42501: permission denied for schema placement"),
        Transient('3D000: database "nope" does not exist'),
        Rejected("22P02: no number"),
    ],
)
def test_a_database_that_refuses_defragment_is_no_missing_plan(muster_ops, monkeypatch, error):
    monkeypatch.setattr("operations.defragment.report", failing(error))

    done = muster_ops("defragment", "train")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: database: {error}; is its address right, and may its role read placement's "
        "tables?\n"
    )


def test_a_bad_address_of_the_database_is_told(muster_ops):
    done = muster_ops("defragment", "train", "--database", "nonsense")

    assert done.code == 2
    assert done.err.startswith("error: database: invalid DSN")


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InsufficientPrivilegeError("permission denied for schema gateway"),
        asyncpg.InterfaceError("connection is closed"),
        TopicAuthorizationFailedError("muster.queue.facts.v1"),
        ExceptionGroup("tasks", [Transient("away"), ExceptionGroup("more", [OSError("cut")])]),
    ],
)
def test_what_database_and_broker_refuse_any_command_is_one_line(muster_ops, monkeypatch, error):
    monkeypatch.setattr("operations.dlq.commands.read_letters", failing(error))

    done = muster_ops("dlq", "list")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1


def test_an_error_of_the_program_is_not_hidden(muster_ops, monkeypatch):
    error = ExceptionGroup("tasks", [Transient("away"), KeyError("a bug")])
    monkeypatch.setattr("operations.dlq.commands.read_letters", failing(error))

    with pytest.raises(ExceptionGroup):
        muster_ops("dlq", "list")
