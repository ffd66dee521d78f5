"""A kill ends the process that ran, whatever a keeper starts meanwhile."""

import sys
import threading

import pytest

from deploy.local import processes
from deploy.local.processes import Program

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def process(tmp_path):
    one = Program(name="sleeper", command=SLEEP, log=tmp_path / "log", folder=tmp_path)
    one.start()
    yield one
    one.kill()


def test_a_kill_waits_for_the_process_that_it_ended(process, monkeypatch):
    def kill_all_and_start_again(family):
        ended(family)
        process.wait()
        process.start()

    ended, first = processes.kill_all, process.pid
    monkeypatch.setattr(processes, "kill_all", kill_all_and_start_again)
    killing = threading.Thread(target=process.kill, daemon=True)
    killing.start()
    killing.join(10)
    monkeypatch.undo()

    assert not killing.is_alive(), "it waits for the one that was started since"
    assert process.pid not in (None, first)
