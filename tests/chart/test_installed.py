"""The chart's processes on real kubelets, by the commands of docs/install.md."""

from __future__ import annotations

import pytest

from deploy.local.services import services_on
from tests.chart.installation import NAMESPACE, TEAM, Installation

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(600, func_only=True)]


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
