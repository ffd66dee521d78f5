"""The node agent in the image, on nodes whose label promises GPUs and which have no driver."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

import pytest

from deploy.kubelets.gpus import COUNTED
from tests.chart.installation import NAMESPACE, Installation, Object

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(300, func_only=True)]
SECONDS = 120
AGENT = "gateway.replicas=2", "agent.enabled=true", "agent.probe=nvml"
NO_DRIVER = "NVML Shared Library Not Found"


def test_it_runs_where_gpus_are_and_says_what_it_lacks(installation: Installation) -> None:
    installation.upgrade(*AGENT, more=["--no-hooks"])

    agents = running(installation)
    assert {one["spec"]["nodeName"] for one in agents} == set(COUNTED)
    for one in agents:
        address = f"http://{one['status']['podIP']}:8080"
        assert until(f"{address}/readyz", NO_DRIVER) == 503
        assert answer(f"{address}/healthz")[0] == 200
    statuses = [status for one in running(installation) for status in containers(one)]
    assert {one["restartCount"] for one in statuses} == {0}


def running(installation: Installation) -> list[Object]:
    """The agents, when both run."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = installation.get("pods -l app.kubernetes.io/component=agent", NAMESPACE)
        if [one["status"]["phase"] for one in found] == ["Running"] * len(COUNTED):
            return found
        time.sleep(1)
    raise AssertionError("no agent runs on each node with GPUs")


def containers(pod: Object) -> list[Object]:
    statuses: list[Object] = pod["status"]["containerStatuses"]
    return statuses


def until(address: str, text: str) -> int:
    """The status of the first answer that has a text: a container runs before it listens."""
    deadline = time.monotonic() + SECONDS
    while text not in (told := answer(address))[1]:
        assert time.monotonic() < deadline, told
        time.sleep(0.5)
    return told[0]


def answer(address: str) -> tuple[int, str]:
    """Status and text; 0 where there is none yet."""
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError as error:
        return 0, str(error)
