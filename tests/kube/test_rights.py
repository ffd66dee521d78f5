"""What each service account may is what `rights.yaml` says: `kubectl auth can-i --list` of each.

A right that is added shows as a changed line there. The rules are those that a real API server
tells each account of itself.
"""

from pathlib import Path

import pytest
import yaml

from deploy.kube.control_plane import IDENTITIES

TOLD = yaml.safe_load((Path(__file__).parent / "rights.yaml").read_text())
EVERYBODY = "everybody"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


def rights_of(kube, identity, namespace="default"):
    """RESOURCE.GROUP by verbs, sorted."""
    with kube.client(identity) as client:
        answer = client.demand("POST", REVIEW, {"spec": {"namespace": namespace}})["status"]
    assert not answer["incomplete"]
    found: dict[str, set[str]] = {}
    for rule in answer["resourceRules"]:
        for resource in rule["resources"]:
            for group in rule["apiGroups"]:
                found.setdefault(".".join(filter(None, (resource, group))), set()).update(
                    rule["verbs"]
                )
    return {name: " ".join(sorted(verbs)) for name, verbs in sorted(found.items())}


@pytest.mark.parametrize("identity", IDENTITIES)
def test_an_account_may_what_is_written_down_and_no_more(kube, identity):
    assert {**TOLD[EVERYBODY], **TOLD[identity]} == rights_of(kube, identity)


def test_no_right_is_a_wildcard_and_none_is_of_secrets(kube):
    for identity in IDENTITIES:
        found = rights_of(kube, identity)
        assert not any("*" in f"{name} {verbs}" for name, verbs in found.items()), identity
        assert "secrets" not in found, identity


def test_secrets_are_asked_for_one_by_one_where_a_team_is_and_nowhere_else(kube, kube_namespace):
    found = rights_of(kube, "binder", kube_namespace)
    with kube.client("binder") as binder:
        listed, _ = binder.request("GET", f"/api/v1/namespaces/{kube_namespace}/secrets")
        asked, _ = binder.request("GET", f"/api/v1/namespaces/{kube_namespace}/secrets/none")
        elsewhere, _ = binder.request("GET", "/api/v1/namespaces/default/secrets/none")

    assert "get" == found["secrets"]
    assert (403, 404, 403) == (listed, asked, elsewhere)
