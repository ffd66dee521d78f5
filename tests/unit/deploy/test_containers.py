"""Which engine and which servers are taken, and what is said where there are none."""

from __future__ import annotations

import pytest

from deploy.containers import __main__ as command
from deploy.containers.docker import COMPOSE_MIN, version_of
from deploy.local.processes import LocalError
from tests.fixtures import server_choice


def without_engine() -> None:
    raise LocalError("there is no engine")


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "an_engine", without_engine)


@pytest.mark.usefixtures("no_engine")
def test_where_nothing_is_required_the_reason_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.delenv(command.VARIABLE, raising=False)

    assert command.main(["true"]) == 0
    assert capsys.readouterr().out == "skipped: there is no engine\n"


@pytest.mark.usefixtures("no_engine")
def test_where_an_engine_is_required_its_absence_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(command.VARIABLE, command.REQUIRED)

    assert command.main(["true"]) == 1
    assert capsys.readouterr().err == "error: there is no engine\n"


def test_without_a_command_the_usage_is_told(capsys: pytest.CaptureFixture[str]):
    assert command.main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("told", "enough"),
    [("2.26.1-4", True), ("v2.23.1", True), ("2.23.0", False), ("1.29.2", False), ("", False)],
)
def test_compose_is_new_enough_from_2_23_1(told: str, *, enough: bool):
    assert enough == (version_of(told) >= COMPOSE_MIN)


def test_containers_are_taken_where_they_can_be_had():
    assert server_choice.choose("", lambda: "")[0] == server_choice.CONTAINERS


def test_else_the_native_servers_and_the_reason():
    assert server_choice.choose("", lambda: "no engine") == ("native", "no engine")


def test_native_asks_no_engine():
    def ask() -> str:
        raise AssertionError

    assert server_choice.choose("native", ask)[0] == server_choice.NATIVE


def test_containers_that_were_asked_for_and_cannot_be_had_are_an_error():
    with pytest.raises(pytest.UsageError, match="asks for containers: no engine"):
        server_choice.choose("containers", lambda: "no engine")


def test_another_word_is_refused_with_those_that_are_known():
    with pytest.raises(pytest.UsageError, match="must be containers or native, not 'podman'"):
        server_choice.choose("podman", lambda: "")


def test_no_socket_is_a_reason_that_costs_no_call(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    assert (
        server_choice.obstacle() == "no container engine: there is no unix:///nowhere/docker.sock"
    )
