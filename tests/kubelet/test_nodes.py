"""Nodes alone, without Muster: they are Ready, run a pod, and give its logs."""

from __future__ import annotations

import pytest

from deploy.kubelets.cluster import KubeletCluster
from deploy.kubelets.gpus import COUNTED
from deploy.kubelets.images import IMAGE
from deploy.local.processes import wait_until
from tests.fixtures.kube import make_namespace
from tests.support.gpu_plugin import uuids_of

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]
SECONDS = 60
NAMESPACE = "alone"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods"


def test_a_node_has_its_gpus_and_a_pod_there_is_given_some_of_them(
    kubelets: KubeletCluster,
) -> None:
    limits = {"nvidia.com/gpu": "3"}
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sh", "-c", "echo devices $NVIDIA_VISIBLE_DEVICES"],
        "resources": {"limits": limits},
    }
    body = {
        "metadata": {"name": "one"},
        "spec": {"nodeName": COUNTED[0], "restartPolicy": "Never", "containers": [container]},
    }
    with kubelets.client() as admin:
        make_namespace(admin, NAMESPACE)
        admin.demand("POST", POD, body)
        wait_until(
            lambda: admin.demand("GET", f"{POD}/one")["status"]["phase"] == "Succeeded",
            seconds=SECONDS,
            what="the pod to succeed",
        )
        written = str(admin.request("GET", f"{POD}/one/log")[1]["message"])
        admin.demand("DELETE", f"{POD}/one", {"gracePeriodSeconds": 1})

    devices = written.removeprefix("devices ").strip().split(",")
    assert 3 == len(set(devices) & set(uuids_of(COUNTED[0]))) == len(devices)
