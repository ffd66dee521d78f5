"""A whole Muster on the cluster for tests of a module; those that need another bring their own."""

import itertools
import os

import pytest

from tests.fixtures.kube import NODES
from tests.kube.native_place import Place
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def scheduler():
    """What pods name, and the instance: of each module another."""
    return f"native-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="module")
def system(kube, scheduler, tmp_path_factory):
    folder = tmp_path_factory.mktemp("native") / "system"
    system = launch_on(kube.folder, folder, instance=scheduler, scheduler_name=scheduler)
    yield system
    system.discard()


@pytest.fixture
async def stage(system, kube_namespace):
    stage = Stage(system)
    await stage.connect()
    await stage.organise()
    await stage.put(f"teams/{TEAM}", {"namespace": kube_namespace})
    await stage.until("SELECT count(*) FROM placement.node", NODES, 60)
    yield stage
    await stage.disconnect()


@pytest.fixture
def place(stage, kube, kube_namespace, scheduler):
    """The namespace of the team of `stage`."""
    return Place(kube, kube_namespace, scheduler)
