"""A whole system on a test cluster, as `make up CLUSTER=kube` starts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.kube import nodes, slices
from deploy.local.services import on_test_cluster, services_on
from deploy.local.system import LocalSystem
from tests.support.system import launch

FLAVORS: Final = json.dumps(dict.fromkeys((nodes.PRODUCT, slices.PRODUCT), "default"))


def launch_on(
    cluster: Path,
    folder: Path,
    *,
    instance: str = "default",
    scheduler_name: str = "muster",
    binder: Mapping[str, str] | None = None,
) -> LocalSystem:
    """All services, each with its own identity at the API server; the caller discards it.

    `cluster`: the folder of the cluster; `binder`: settings of the binder that go before ours.
    """
    settings = on_test_cluster(str(cluster))
    settings["*"] = {"MUSTER_CLUSTER": "kubernetes", "MUSTER_KUBE_INSTANCE": instance}
    settings["*"]["MUSTER_KUBE_SCHEDULER_NAME"] = scheduler_name
    settings["binder"] |= binder or {}
    settings["cluster-watcher"] |= {"MUSTER_FLAVORS": FLAVORS}
    return launch(folder, overrides=settings, services=services_on("kubernetes"))
