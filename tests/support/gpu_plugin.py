"""`python -m tests.support.gpu_plugin`: eight GPUs of a node for its kubelet, which has none.

A device plugin as NVIDIA's is one: devices are told by their UUIDs, and a container that is given
some has them in NVIDIA_VISIBLE_DEVICES. A kubelet that starts anew forgets its plugins and removes
their sockets: then it is told again.
"""

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

GPUS: Final = 8
RESOURCE: Final = "nvidia.com/gpu"
VERSION: Final = "v1beta1"
DEFINITION: Final = "pkg/apis/deviceplugin/v1beta1/api.proto"
FOLDER: Final = Path("/var/lib/kubelet/device-plugins")
KUBELET: Final = FOLDER / "kubelet.sock"
SOCKET: Final = FOLDER / "muster-test-gpu.sock"
POLL_SECONDS: Final = 0.2
DIAL_SECONDS: Final = 5


def uuids_of(node: str) -> list[str]:
    """The UUIDs of the GPUs of a node whose name ends in its number."""
    number = int(node.rpartition("-")[2])
    return [f"GPU-{number:08x}-0000-4000-8000-{gpu:012x}" for gpu in range(GPUS)]


def main() -> int:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", required=True)
    parser.add_argument("--protocols", required=True, help="folder of Go module k8s.io/kubelet")
    arguments = parser.parse_args()
    sys.path.append(arguments.protocols)
    messages, services = grpc.protos_and_services(DEFINITION)
    plugin = Plugin(messages, uuids_of(arguments.node))
    while True:
        server = grpc.server(ThreadPoolExecutor(4))
        services.add_DevicePluginServicer_to_server(plugin, server)
        SOCKET.unlink(missing_ok=True)
        server.add_insecure_port(f"unix://{SOCKET}")
        server.start()
        if _registered(messages, services):
            _wait_for_another_kubelet()
        server.stop(0)
        time.sleep(POLL_SECONDS)


class Plugin:
    """What the kubelet asks; the messages are those of its own description."""

    def __init__(self, messages: Any, uuids: list[str]) -> None:
        self._messages = messages
        self._uuids = uuids
        self._never = threading.Event()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._messages.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        """All are healthy, for as long as the kubelet listens."""
        devices = [self._messages.Device(ID=uuid, health="Healthy") for uuid in self._uuids]
        yield self._messages.ListAndWatchResponse(devices=devices)
        while context.is_active():
            self._never.wait(POLL_SECONDS)

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        """The last ones first, so that nobody believes that they are those of a ledger."""
        answers = [self._preferred(one) for one in request.container_requests]
        return self._messages.PreferredAllocationResponse(container_responses=answers)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        answers = [
            self._messages.ContainerAllocateResponse(
                envs={"NVIDIA_VISIBLE_DEVICES": ",".join(sorted(one.devices_ids))}
            )
            for one in request.container_requests
        ]
        return self._messages.AllocateResponse(container_responses=answers)

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._messages.PreStartContainerResponse()

    def _preferred(self, request: Any) -> Any:
        chosen = list(request.must_include_deviceIDs)
        others = sorted(set(request.available_deviceIDs) - set(chosen), reverse=True)
        chosen += others[: request.allocation_size - len(chosen)]
        return self._messages.ContainerPreferredAllocationResponse(deviceIDs=chosen)


def _registered(messages: Any, services: Any) -> bool:
    """Tell the kubelet of the plugin; False while there is none."""
    request = messages.RegisterRequest(
        version=VERSION,
        endpoint=SOCKET.name,
        resource_name=RESOURCE,
        options=messages.DevicePluginOptions(get_preferred_allocation_available=True),
    )
    with grpc.insecure_channel(f"unix://{KUBELET}") as channel:
        try:
            services.RegistrationStub(channel).Register(request, timeout=DIAL_SECONDS)
        except grpc.RpcError:
            return False
    return True


def _wait_for_another_kubelet() -> None:
    """Return when the kubelet that was told has made place for a new one."""
    while SOCKET.exists():
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
