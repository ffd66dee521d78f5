"""A process that holds a slot, and one that held it once."""

from __future__ import annotations

import subprocess

import pytest

from shared.adapters.slots import SILENT_SECONDS, SlotCheck, SlotHolder, this_process
from shared.ports.errors import SlotTaken

HOST = this_process().split("/")[0]
ELSEWHERE = "elsewhere.example/7/100"


@pytest.fixture
def check() -> SlotCheck:
    """The look of this process at the slot "a"."""
    return SlotCheck("a", this_process())


def holder(process: str, silent_seconds: float = 0.5) -> SlotHolder:
    """The slot "a", held."""
    return SlotHolder("a", process, silent_seconds)


def test_this_process_is_named_by_host_pid_and_start() -> None:
    host, pid, start = this_process().split("/")

    assert host
    assert int(pid) > 0
    assert int(start) > 0


@pytest.mark.parametrize(
    "process", ["", this_process(), f"{HOST}/4194305/1"], ids=["unknown", "own", "ended"]
)
def test_unknown_own_and_ended_processes_are_followed_at_once(
    check: SlotCheck, process: str
) -> None:
    assert check.may_take(holder(process))


def test_a_zombie_has_ended(check: SlotCheck) -> None:
    child = subprocess.Popen(["/bin/sleep", "60"])
    started = _start_of(child.pid)
    assert not check.may_take(holder(f"{HOST}/{child.pid}/{started}"))
    child.kill()
    while _state_of(child.pid) != "Z":
        pass

    assert check.may_take(holder(f"{HOST}/{child.pid}/{started}"))
    child.wait()


def test_a_living_process_is_named_once_it_renews(check: SlotCheck) -> None:
    assert not check.may_take(holder(ELSEWHERE, 0.5))
    assert not check.may_take(holder(ELSEWHERE, 0.7))

    with pytest.raises(SlotTaken, match=r"pid 7 on elsewhere\.example"):
        check.may_take(holder(ELSEWHERE, 0.1))


def test_a_silent_process_is_followed(check: SlotCheck) -> None:
    assert not check.may_take(holder(ELSEWHERE, SILENT_SECONDS))
    assert check.may_take(holder(ELSEWHERE, SILENT_SECONDS + 0.01))


def test_a_holder_that_changed_is_looked_at_anew(check: SlotCheck) -> None:
    assert not check.may_take(holder(ELSEWHERE, 0.7))

    assert not check.may_take(holder("third.example/9/100", 0.1))


def test_another_slot_is_not_compared(check: SlotCheck) -> None:
    assert check.may_take(SlotHolder("b", ELSEWHERE, 0.1))


def _start_of(pid: int) -> str:
    return _fields(pid)[19]


def _state_of(pid: int) -> str:
    return _fields(pid)[0]


def _fields(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()
