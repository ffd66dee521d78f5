"""`ports.device_pods.DevicePods` by the kubelet's PodResources API (v1, gRPC on a unix socket).

Source: KEP-606; k8s.io/kubelet, podresources/v1/api.proto. The messages are described here as far
as they are read, so that no generated code has to be kept; unknown fields are passed over.
`grpcio` and `protobuf` are asked for when a connection is opened (the extra `agent`).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from shared.core.telemetry.exposition import PodOfDevice
from shared.ports.errors import Transient

SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
METHOD: Final = "/v1.PodResourcesLister/List"
RESOURCES: Final = "nvidia.com/"
"""How the names of the resources begin whose devices are GPUs, or parts of one."""
DRIVERS: Final = frozenset({"gpu.nvidia.com"})
SECONDS_MAX: Final = 5.0
_TEXT, _MESSAGE, _ONE, _MANY = 9, 11, 1, 3
"""Types and labels of protobuf's descriptors."""
_MESSAGES: Final = {
    "ListPodResourcesResponse": {"pod_resources": (1, _MANY, "PodResources")},
    "PodResources": {
        "name": (1, _ONE, ""),
        "namespace": (2, _ONE, ""),
        "containers": (3, _MANY, "ContainerResources"),
    },
    "ContainerResources": {
        "name": (1, _ONE, ""),
        "devices": (2, _MANY, "ContainerDevices"),
        "dynamic_resources": (5, _MANY, "DynamicResource"),
    },
    "ContainerDevices": {"resource_name": (1, _ONE, ""), "device_ids": (2, _MANY, "")},
    "DynamicResource": {"claim_resources": (4, _MANY, "ClaimResource")},
    "ClaimResource": {"driver_name": (2, _ONE, ""), "device_name": (4, _ONE, "")},
}
"""Number, label and type of each field that is read."""


class PodResources:
    """The kubelet of this node."""

    def __init__(self, socket: Path = SOCKET) -> None:
        self._socket = socket
        self._channel: Any = None
        self._list: Any = None
        self._grpc: Any = None

    async def read(self) -> dict[str, PodOfDevice]:
        """Containers by name of their device.

        Raises:
            ModuleNotFoundError: the extra `agent` is not installed.
            Transient: the kubelet does not answer.
        """
        if self._list is None:
            self._open()
        try:
            answer = await self._list(b"", timeout=SECONDS_MAX)
        except self._grpc.aio.AioRpcError as error:
            raise Transient(f"{self._socket}: {error.code().name}: {error.details()}") from error
        return {
            device: PodOfDevice(namespace=pod.namespace, pod=pod.name, container=container.name)
            for pod in answer.pod_resources
            for container in pod.containers
            for device in _devices(container)
        }

    async def close(self) -> None:
        """Release the connection."""
        if self._channel is not None:
            await self._channel.close()

    def _open(self) -> None:
        self._grpc = importlib.import_module("grpc")
        importlib.import_module("grpc.aio")
        self._channel = self._grpc.aio.insecure_channel(f"unix://{self._socket.absolute()}")
        self._list = self._channel.unary_unary(
            METHOD,
            request_serializer=bytes,
            response_deserializer=message_class("ListPodResourcesResponse").FromString,
        )


def _devices(container: Any) -> Iterator[str]:  # noqa: ANN401
    for one in container.devices:
        if one.resource_name.startswith(RESOURCES):
            yield from one.device_ids
    for claim in container.dynamic_resources:
        for one in claim.claim_resources:
            if one.driver_name in DRIVERS:
                yield one.device_name


def message_class(name: str) -> Any:  # noqa: ANN401
    """The class of one message of the API."""
    descriptors = importlib.import_module("google.protobuf.descriptor_pb2")
    pools = importlib.import_module("google.protobuf.descriptor_pool")
    factory = importlib.import_module("google.protobuf.message_factory")
    file = descriptors.FileDescriptorProto(
        name="podresources.proto", package="v1", syntax="proto3"
    )
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for field, (number, label, kind) in fields.items():
            told = described.field.add(name=field, number=number, label=label)
            told.type = _MESSAGE if kind else _TEXT
            if kind:
                told.type_name = f".v1.{kind}"
    pool = pools.DescriptorPool()
    pool.Add(file)
    return factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}"))
