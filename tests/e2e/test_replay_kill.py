"""A short form of `make replay-kill-test` in every run of the tests."""

from __future__ import annotations

import pytest

from operations.replay.recorded import data_folder
from tests.support.killing import run_in_short

FILES = ("philly/sia_philly.csv.gz", "acme/converted_kalos_trace.csv")
pytestmark = pytest.mark.skipif(
    not all((data_folder() / one).exists() for one in FILES),
    reason=f"the traces are not in {data_folder()} (MUSTER_DATA)",
)


@pytest.mark.timeout(1200)
def test_recorded_clusters_survive_kills_preemption_drains_and_changes_of_quota() -> None:
    run_in_short("replay_kill_test", rounds=12)
