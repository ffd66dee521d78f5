"""All of Muster on real kubelets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from deploy.kubelets.cluster import KubeletCluster
from deploy.local import keeper
from deploy.local.system import LocalSystem
from tests.kubelet.world import World, launched


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
