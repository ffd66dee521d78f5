"""A small client of the API server, for setting a test cluster up: one connection, JSON."""

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.processes import LocalError

TIMEOUT_SECONDS: Final = 30
_CONFLICT, _REFUSED = 409, 400
_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
_PLACES: Final = {
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "MutatingAdmissionPolicy": f"{_REGISTRATION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{_REGISTRATION}/mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{_REGISTRATION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_REGISTRATION}/validatingadmissionpolicybindings",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
}
"""Where objects of each kind are created."""


class ApiClient:
    """Speaks to one API server as the user of a kubeconfig of ours; close it after use."""

    def __init__(self, kubeconfig: Path) -> None:
        found = yaml.safe_load(kubeconfig.read_text())
        cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the server signs its own certificate
        self._connection = http.client.HTTPSConnection(
            cluster["server"].removeprefix("https://"), timeout=TIMEOUT_SECONDS, context=context
        )
        self._headers = {
            "Authorization": f"Bearer {user['token']}",
            "Content-Type": "application/json",
        }

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """The status and the decoded answer (empty where it is no JSON object).

        Raises:
            OSError: the server cannot be reached, or its answer broke off.
        """
        content = json.dumps(body) if body is not None else None
        headers = dict(self._headers)
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
            text = response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {"message": text.decode(errors="replace")}
        return response.status, answer if isinstance(answer, dict) else {"items": answer}

    def demand(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The answer of a request that must succeed.

        Raises:
            LocalError: it was refused; with the server's words.
        """
        status, answer = self.request(method, path, body)
        if status >= _REFUSED:
            raise LocalError(f"{method} {path}: {status} {answer.get('message', '')}")
        return answer

    def create(self, document: Mapping[str, Any]) -> None:
        """Create an object of a known kind; one that exists is left as it is."""
        metadata = document["metadata"]
        path = _PLACES[document["kind"]].format(namespace=metadata.get("namespace"))
        status, answer = self.request("POST", path, document)
        if status >= _REFUSED and status != _CONFLICT:
            name = f"{document['kind']} {metadata['name']}"
            raise LocalError(f"{name}: {status} {answer.get('message', '')}")

    def create_all(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Create objects in this order."""
        for document in documents:
            self.create(document)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def documents_of(manifest: Path) -> list[dict[str, Any]]:
    """The objects of a YAML file."""
    return [one for one in yaml.safe_load_all(manifest.read_text()) if one]
