"""The contract of `ports.Cluster`, kept by a real API server: the very tests of the others."""

import itertools
import os

import pytest

from tests.contract import test_cluster
from tests.kube.kube_world import on_kubernetes

_numbers = itertools.count(1)


@pytest.fixture
async def world(kube):
    async with on_kubernetes(kube, f"contract-{os.getpid()}-{next(_numbers)}") as world:
        yield world


globals().update(
    {name: test for name, test in vars(test_cluster).items() if name.startswith("test_")}
)
