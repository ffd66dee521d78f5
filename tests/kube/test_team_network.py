"""The NetworkPolicy for namespaces of teams, as a real API server understands it."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
import yaml

from deploy.kube.control_plane import MANIFESTS

METADATA = ["169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254"]
"""Of clouds: instances, containers, another cloud, by IPv6."""


@pytest.fixture
def policy(kube, kube_namespace):
    """As the server keeps it."""
    manifest = yaml.safe_load((MANIFESTS / "team-network.yaml").read_text())
    path = f"/apis/networking.k8s.io/v1/namespaces/{kube_namespace}/networkpolicies"
    with kube.client() as admin:
        query = "?fieldValidation=Strict"
        kept = admin.demand("POST", path + query, manifest)
    return kept["spec"]


def test_only_pods_of_the_namespace_come_in(policy):
    assert policy["podSelector"] == {}
    assert policy["ingress"] == [{"from": [{"podSelector": {}}]}]


@pytest.mark.parametrize("address", METADATA)
def test_metadata_services_are_not_reached_and_all_else_is(policy, address):
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    blocks = [
        one["ipBlock"] for rule in policy["egress"] for one in rule["to"] if "ipBlock" in one
    ]

    def reached(text: str) -> bool:
        found = ip_address(text)
        return any(
            found in ip_network(one["cidr"])
            and not any(found in ip_network(gap) for gap in one["except"])
            for one in blocks
        )

    assert not reached(address)
    assert all(reached(one) for one in ("10.96.0.10", "192.0.2.1", "2001:db8::1"))
