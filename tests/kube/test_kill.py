"""A short kill test on the real API server; `make kube-kill-test N=100` is the long one."""

import subprocess
import sys

import pytest


@pytest.mark.timeout(600)
def test_seven_faults_leave_no_gang_in_part_and_nothing_doubled(kube):
    options = ["--rounds", "7", "--seed", "1", "--outage", "5", "--cluster", str(kube.folder)]

    done = subprocess.run(
        [sys.executable, "-m", "tests.kube.kill_test", *options],
        check=False,
        capture_output=True,
        text=True,
    )

    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
