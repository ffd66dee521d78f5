"""The image of this checkout on real kubelets, and the chart in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.containers.docker import Docker
from deploy.containers.names import KAFKA_IMAGE, MUSTER_IMAGE, POSTGRES_IMAGE
from deploy.kubelets.cluster import KubeletCluster
from deploy.kubelets.gpus import COUNTED
from deploy.local.cache import CHECKOUT
from tests.chart.installation import Installation
from tests.fixtures.shared_folder import mark, shared_folder
from tests.support.checkouts import checkout_of
from tests.support.kube_scheduler import scheduler

FROM = "MUSTER_CHART_FROM"
"""A revision of git, which is installed and upgraded to this checkout."""
FIRST, NEXT = f"{MUSTER_IMAGE}:0.1.0", f"{MUSTER_IMAGE}:next"
BUILD_SECONDS = 480


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The checkout that is installed: this one, unless a revision is named."""
    revision = os.environ.get(FROM)
    if not revision:
        yield CHECKOUT
        return
    with checkout_of(revision, tmp_path_factory.mktemp("first")) as place:
        yield place


@pytest.fixture(scope="session")
def archive(first: Path) -> Path:
    """Muster's image, that of this checkout if it is another, and those of `values-try.yaml`."""
    path, docker = shared_folder() / "images.tar", Docker()
    checkouts = {FIRST: first} if first == CHECKOUT else {FIRST: first, NEXT: CHECKOUT}
    for image, checkout in checkouts.items():
        file = str(checkout / "deploy" / "Dockerfile")
        build = ["build", "--quiet", "--tag", image, "--file", file, str(checkout)]
        docker.call(*build, seconds=BUILD_SECONDS)
    docker.call("save", "--output", str(path), *checkouts, POSTGRES_IMAGE, KAFKA_IMAGE)
    return path


@pytest.fixture(scope="session")
def cluster(archive: Path, kubelets: KubeletCluster) -> Iterator[KubeletCluster]:
    """Two nodes that have the images, and kube-scheduler for the chart's own pods."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: kubelets.nodes[name].load(archive), COUNTED))
    archive.unlink()
    program = scheduler(kubelets.folder, kubelets.kubeconfig(), mark())
    program.start()
    yield kubelets
    program.stop()


@pytest.fixture(scope="session")
def installation(
    cluster: KubeletCluster, first: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Installed by the commands of the guide; its first Job is there."""
    installed = Installation(cluster, tmp_path_factory.mktemp("installation"), first)
    installed.clear()
    try:
        installed.follow_the_guide()
        yield installed
    except BaseException:
        print(installed.told())
        raise
    finally:
        installed.end()
