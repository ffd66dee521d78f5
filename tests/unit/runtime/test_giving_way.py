"""Who shows and counts takes less of a short processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shared.runtime.giving_way import AUTOGROUP

PROGRAM = """
import os, sys
from shared.runtime.giving_way import AUTOGROUP, give_way
if sys.argv[2] == "guest":
    pid = os.fork()
    if pid:
        sys.exit(os.waitpid(pid, 0)[1])
give_way(int(sys.argv[1]))
print(os.nice(0), AUTOGROUP.read_text().split()[-1] if AUTOGROUP.exists() else 0)
"""


def after(niceness: int, place: str) -> list[int]:
    """The niceness of a process and of its session; it leads the session, or is a guest in it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(niceness), place],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    return [int(one) for one in done.stdout.split()]


def test_a_process_takes_less():
    assert after(3, "leader")[0] == min(19, os.nice(0) + 3)
    assert after(0, "leader")[0] == os.nice(0)


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="processors are not shared by sessions here")
def test_the_session_takes_less_where_it_is_its_own():
    assert after(3, "leader")[1] == 3
    assert after(3, "guest")[1] == 0
