"""`python -m tests.support.gpu_driver`: the GPUs of a node as a DRA driver hands them out.

A driver as NVIDIA's is one: it publishes a ResourceSlice, and for a claim it writes a CDI file by
which the container runtime puts the UUIDs of the claim's devices, and of no others, in
NVIDIA_VISIBLE_DEVICES. What a kubelet that starts anew removes is published again.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from deploy.kube.api import ApiClient
from deploy.kube.slices import DRIVER, whole_slice
from tests.support.gpu_plugin import uuids_of

TYPE: Final = "DRAPlugin"
VERSION: Final = "v1.DRAPlugin"
DEFINITION: Final = "pkg/apis/dra/v1/api.proto"
REGISTRATION: Final = "pkg/apis/pluginregistration/v1/api.proto"
KUBELET: Final = Path("/var/lib/kubelet")
SOCKETS: Final = (
    KUBELET / "plugins" / DRIVER / "dra.sock",
    KUBELET / "plugins_registry" / f"{DRIVER}-reg.sock",
)
CDI: Final = Path("/run/cdi")
CDI_KIND: Final = f"{DRIVER}/claim"
PUBLISH_SECONDS: Final = 0.5


def main() -> int:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", required=True)
    parser.add_argument("--protocols", required=True, help="folder of Go module k8s.io/kubelet")
    parser.add_argument("--kubeconfig", required=True, type=Path, help="that of the node")
    arguments = parser.parse_args()
    sys.path.append(arguments.protocols)
    messages, services = grpc.protos_and_services(DEFINITION)
    registration, registrations = grpc.protos_and_services(REGISTRATION)
    driver = Driver(arguments.node, arguments.kubeconfig, messages)
    registrar = Registrar(registration)
    server = grpc.server(ThreadPoolExecutor(4))
    services.add_DRAPluginServicer_to_server(driver, server)
    registrations.add_RegistrationServicer_to_server(registrar, server)
    CDI.mkdir(exist_ok=True)
    for socket in SOCKETS:
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix://{socket}")
    server.start()
    registrar.registered.wait()
    while True:
        with contextlib.suppress(OSError):
            driver.publish()
        time.sleep(PUBLISH_SECONDS)


class Registrar:
    """Tells the kubelet what kind of plugin this is."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self.registered = threading.Event()
        """The kubelet knows of it, so it no longer removes the slices of its node."""

    def GetInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._messages.PluginInfo(
            type=TYPE, name=DRIVER, endpoint=str(SOCKETS[0]), supported_versions=[VERSION]
        )

    def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.plugin_registered:
            self.registered.set()
        else:
            print(f"refused: {request.error}", file=sys.stderr, flush=True)
        return self._messages.RegistrationStatusResponse()


class Driver:
    """Prepares claims: a CDI file for each, with the UUIDs of its devices."""

    def __init__(self, node: str, kubeconfig: Path, messages: Any) -> None:
        self._node, self._kubeconfig, self._messages = node, kubeconfig, messages
        self._uuids = uuids_of(node)

    def publish(self) -> None:
        """Have the slice of the node at the API server; raises OSError while it is away."""
        with contextlib.closing(ApiClient(self._kubeconfig)) as client:
            client.create(whole_slice(self._node, self._uuids))

    def NodePrepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        answers = {one.uid: self._answer(one) for one in request.claims}
        return self._messages.NodePrepareResourcesResponse(claims=answers)

    def NodeUnprepareResources(self, request: Any, context: Any) -> Any:  # noqa: N802
        for one in request.claims:
            _cdi_file(one.uid).unlink(missing_ok=True)
        answers = {
            one.uid: self._messages.NodeUnprepareResourceResponse() for one in request.claims
        }
        return self._messages.NodeUnprepareResourcesResponse(claims=answers)

    def _answer(self, claim: Any) -> Any:
        try:
            return self._messages.NodePrepareResourceResponse(devices=self._prepared(claim))
        except Exception as error:  # noqa: BLE001  # the kubelet tells it as an event of the pod
            traceback.print_exc()
            return self._messages.NodePrepareResourceResponse(error=f"{claim.name}: {error}")

    def _prepared(self, claim: Any) -> list[Any]:
        held = self._allocated(claim)
        names = [one["device"] for one in held]
        uuids = [self._uuids[int(name.removeprefix("gpu-"))] for name in names]
        edits = {"env": [f"NVIDIA_VISIBLE_DEVICES={','.join(uuids)}"]}
        spec = {
            "cdiVersion": "0.5.0",
            "kind": CDI_KIND,
            "devices": [{"name": claim.uid, "containerEdits": edits}],
        }
        partial = _cdi_file(claim.uid).with_suffix(".partial")
        partial.write_text(json.dumps(spec))
        partial.rename(_cdi_file(claim.uid))
        return [
            self._messages.Device(
                request_names=[one["request"]],
                pool_name=one["pool"],
                device_name=one["device"],
                cdi_device_ids=[f"{CDI_KIND}={claim.uid}"],
            )
            for one in held
        ]

    def _allocated(self, claim: Any) -> list[dict[str, str]]:
        path = f"/apis/resource.k8s.io/v1/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        with contextlib.closing(ApiClient(self._kubeconfig)) as client:
            found = client.demand("GET", path)
        if found["metadata"]["uid"] != claim.uid:
            raise ValueError(f"its uid is {found['metadata']['uid']}, not {claim.uid}")
        results: list[dict[str, str]] = found["status"]["allocation"]["devices"]["results"]
        return [one for one in results if one["driver"] == DRIVER]


def _cdi_file(uid: str) -> Path:
    return CDI / f"{DRIVER}-{uid}.json"


if __name__ == "__main__":
    sys.exit(main())
