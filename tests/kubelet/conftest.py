"""Real kubelets for a run, and all of Muster on them.

Where they cannot run, tests are skipped with the reason; `MUSTER_KUBELETS=required` makes that an
error. What nodes leave on the machine when they are gone is an error of the run.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from deploy.kubelets.cluster import KubeletCluster, obstacle
from deploy.kubelets.place import leftovers
from deploy.local import keeper
from deploy.local.system import LocalSystem
from tests.fixtures.shared_folder import shared_folder
from tests.kubelet.world import World, launched

VARIABLE = "MUSTER_KUBELETS"
REQUIRED = "required"


@pytest.fixture(scope="session")
def nodes_can_run() -> None:
    """Skips with the reason where none can, unless they are required."""
    reason = obstacle()
    if reason and os.environ.get(VARIABLE) != REQUIRED:
        pytest.skip(f"no real kubelets here: {reason}")


@pytest.fixture(scope="session")
def kubelets(nodes_can_run: None) -> Iterator[KubeletCluster]:
    del nodes_can_run
    cluster = KubeletCluster(shared_folder() / "kubelets", home=str(shared_folder()))
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()
    assert [] == leftovers(cluster.folder)


@pytest.fixture(scope="session")
def system(
    kubelets: KubeletCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalSystem]:
    with pytest.MonkeyPatch.context() as patch:
        # Tests kill a process again and again, and do not want to wait ever longer for it.
        patch.setattr(keeper, "DELAY_SECONDS_MAX", keeper.DELAY_SECONDS_MIN)
        system = launched(kubelets, tmp_path_factory.mktemp("kubelets") / "system")
        yield system
        system.discard()


@pytest.fixture
async def world(kubelets: KubeletCluster, system: LocalSystem) -> AsyncIterator[World]:
    world = World(kubelets, system)
    await world.enter()
    try:
        yield world
    finally:
        await world.leave()
