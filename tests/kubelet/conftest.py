"""Two real kubelets for a run.

Where they cannot run, tests are skipped with the reason; `MUSTER_KUBELETS=required` makes that an
error. What nodes leave on the machine when they are gone is an error of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from deploy.kubelets.cluster import KubeletCluster, obstacle
from deploy.kubelets.place import leftovers
from tests.fixtures.shared_folder import shared_folder

VARIABLE = "MUSTER_KUBELETS"
REQUIRED = "required"


@pytest.fixture(scope="session")
def kubelets() -> Iterator[KubeletCluster]:
    reason = obstacle()
    if reason and os.environ.get(VARIABLE) != REQUIRED:
        pytest.skip(f"no real kubelets here: {reason}")
    cluster = KubeletCluster(shared_folder() / "kubelets", home=str(shared_folder()))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
    assert [] == leftovers(cluster.folder)
