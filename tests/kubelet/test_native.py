"""Jobs and pods of the cluster, which name Muster as their scheduler, on real nodes."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.kubelets.images import IMAGE
from tests.kubelet.world import TEAM, UNTIL_TOLD, World

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

INDEX = "batch.kubernetes.io/job-completion-index"
JOBS = f"/apis/batch/v1/namespaces/{TEAM}/jobs"
RANKS = 2


def a_job(name: str, script: str, gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "100m", "memory": "64Mi", "nvidia.com/gpu": str(gpus)}
    container = {
        "name": "train",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"runAsUser": 1000},
    }
    pod = {
        "schedulerName": "muster",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [container],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": RANKS,
            "completions": RANKS,
            "backoffLimit": 0,
            "template": {"spec": pod},
        },
    }


async def test_an_indexed_job_runs_on_real_nodes_and_completes(world: World) -> None:
    with world.kubelets.client() as admin:
        admin.demand("POST", JOBS, a_job("gang", f"echo hello; {UNTIL_TOLD}", gpus=1))

        def status() -> dict[str, Any]:
            found: dict[str, Any] = admin.demand("GET", f"{JOBS}/gang")["status"]
            return found

        await world.eventually(
            lambda: [one["status"]["phase"] for one in world.all_pods()] == ["Running"] * RANKS,
            what="the pods to run",
        )
        (work,) = {pod["metadata"]["labels"]["muster.dev/workload"] for pod in world.all_pods()}
        written = [await world.written(work, rank) for rank in range(RANKS)]
        await world.go(work, RANKS)
        await world.eventually(
            lambda: status().get("succeeded") == RANKS, what="the job to complete"
        )
        pods = world.all_pods()
        found = await world.ended(work)
        background = {"propagationPolicy": "Background"}
        admin.demand("DELETE", f"{JOBS}/gang", background)

    assert "succeeded" == found["state"], found
    assert not status_failed(pods)
    assert ["hello\n"] * RANKS == written
    for pod in pods:
        labels = pod["metadata"]["labels"]
        assert labels[INDEX] == labels["muster.dev/rank"]


def status_failed(pods: list[dict[str, Any]]) -> list[str]:
    """Names of pods that failed."""
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Failed"]
