"""Two gateways: the Service leads to both, and a drain takes one at a time."""

from __future__ import annotations

import pytest

from deploy.local.processes import wait_until
from tests.chart.installation import NAMESPACE, WAITING, Installation

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(300, func_only=True)]


def test_both_answer_and_a_drain_takes_one_of_them(installation: Installation) -> None:
    installation.upgrade("gateway.replicas=2", more=["--no-hooks", *WAITING])
    # Who counts the ready ones comes behind them.
    wait_until(
        lambda: len(set(installation.gateways())) == 2, seconds=60, what="both behind the Service"
    )
    addresses = installation.gateways()
    for address in addresses:
        with installation.client(address) as client:
            assert client.whoami()["role"] == "operator"

    evict(installation, "muster-gateway-0")
    with pytest.raises(AssertionError, match="disruption budget"):
        evict(installation, "muster-gateway-1")
    with installation.client(address_of(installation, "muster-gateway-1")) as client:
        assert client.whoami()["role"] == "operator"
    installation.wait("Ready", "pod -l app.kubernetes.io/component=gateway", NAMESPACE)


def evict(installation: Installation, pod: str) -> None:
    """As `kubectl drain` does."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    body = f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}"}}}}'
    installation.run("kubectl", "create", "--raw", path, "-f", "-", text=body)


def address_of(installation: Installation, pod: str) -> str:
    (found,) = installation.get(f"pods --field-selector metadata.name={pod}", NAMESPACE)
    return f"http://{found['status']['podIP']}:8080"
