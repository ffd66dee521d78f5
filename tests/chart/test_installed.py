"""The chart's processes on real kubelets, by the commands of docs/install.md."""

from __future__ import annotations

import time

import pytest

from deploy.local.services import services_on
from tests.chart.conftest import NEXT
from tests.chart.installation import NAMESPACE, TEAM, Installation, a_job

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(600, func_only=True)]
GO = "/tmp/go"
UNTIL_TOLD = f"until test -e {GO}; do sleep 0.1; done; sleep 0.5"
PAUSE_SECONDS = 2


def test_every_process_is_ready_and_the_first_job_succeeds(installation: Installation) -> None:
    installation.wait("Complete", "job/first", TEAM)

    (job,) = installation.get("jobs", TEAM)
    (pod,) = installation.get("pods", TEAM)
    assert (job["status"]["succeeded"], job["status"].get("failed")) == (1, None)
    assert pod["metadata"]["labels"]["muster.dev/workload"]
    ready = {
        one["metadata"]["name"]
        for one in installation.get("deployments", NAMESPACE)
        if one["status"].get("readyReplicas") == 1
    }
    assert ready == {f"muster-{one.name}" for one in services_on("kubernetes")}


def test_an_upgrade_under_load_loses_nothing(installation: Installation) -> None:
    """Also to more gateways than one: each has a shard of its own."""
    installation.create(a_job("through", UNTIL_TOLD, pods=2))
    installation.wait("Ready", "pod -l job-name=through", TEAM)
    before = uids(installation, "through")

    upgrade, meanwhile = installation.upgrading("image.tag=next", "gateway.replicas=2"), 0
    while upgrade.poll() is None:
        installation.create(a_job(f"during-{meanwhile}", pods=2))
        meanwhile += 1
        time.sleep(PAUSE_SECONDS)
    assert upgrade.returncode == 0, upgrade.communicate()[0]
    assert uids(installation, "through") == before
    for pod in before:
        installation.run("kubectl", "-n", TEAM, "exec", pod, "--", "touch", GO)
    installation.wait("Complete", "job --all", TEAM)

    assert {one["status"].get("failed") for one in installation.get("jobs", TEAM)} == {None}
    assert len(installation.get("pods", TEAM)) == 1 + 2 * (1 + meanwhile)
    images = {
        container["image"]
        for pod in installation.get("pods -l muster-process", NAMESPACE)
        for container in pod["spec"]["containers"]
    }
    assert images == {NEXT}
    (gateways,) = installation.get(
        "statefulsets -l app.kubernetes.io/component=gateway", NAMESPACE
    )
    assert gateways["status"]["readyReplicas"] == 2


def uids(installation: Installation, job: str) -> dict[str, str]:
    """Of the pods of a Job, by name."""
    pods = installation.get(f"pods -l job-name={job}", TEAM)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
