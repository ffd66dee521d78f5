"""A short kill test in every run of the tests; `make kill-test N=60` is the long one."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.timeout(480)
def test_ten_kills_lose_and_double_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.kill_test", "--rounds", "10", "--seed", "1"],
        check=False,
        capture_output=True,
        text=True,
    )

    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
