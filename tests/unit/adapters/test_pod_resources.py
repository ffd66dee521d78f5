"""The kubelet's PodResources over gRPC on a unix socket, answered by a server of our own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from services.node_agent.device_owners import DeviceOwners
from shared.adapters.kubernetes.pod_resources import METHOD, PodResources, message_class
from shared.core.telemetry.exposition import PodOfDevice
from shared.core.telemetry.readings import GpuReading, InstanceReading, NodeReading
from shared.ports.errors import Transient


class KubeletServer:
    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.answer = message_class("ListPodResourcesResponse")()

    def give(self, pod: str, resource: str, *devices: str) -> None:
        container = self._container(pod)
        container.devices.add(resource_name=resource, device_ids=devices)

    def claim(self, pod: str, driver: str, device: str) -> None:
        resources = self._container(pod).dynamic_resources.add()
        resources.claim_resources.add(driver_name=driver, device_name=device)

    def _container(self, pod: str) -> Any:
        one = self.answer.pod_resources.add(name=pod, namespace="team")
        return one.containers.add(name="main")

    async def list(self, _: bytes, __: Any) -> bytes:
        told: bytes = self.answer.SerializeToString()
        return told


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[KubeletServer]:
    one = KubeletServer(tmp_path / "kubelet.sock")
    server = grpc.aio.server()
    service, _, method = METHOD.removeprefix("/").partition("/")
    handler = grpc.unary_unary_rpc_method_handler(one.list)
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    server.add_insecure_port(f"unix://{one.socket}")
    await server.start()
    yield one
    await server.stop(0)


@pytest.fixture
async def resources(kubelet: KubeletServer) -> AsyncIterator[PodResources]:
    one = PodResources(kubelet.socket)
    yield one
    await one.close()


def a_pod(name: str) -> PodOfDevice:
    return PodOfDevice(namespace="team", pod=name, container="main")


async def test_devices_of_plugins_and_of_claims_are_told_by_their_pod(kubelet, resources):
    kubelet.give("a", "nvidia.com/gpu", "GPU-0", "GPU-1")
    kubelet.give("a", "nvidia.com/gpu", "GPU-2")
    kubelet.give("b", "nvidia.com/mig-1g.10gb", "MIG-7")
    kubelet.give("c", "example.com/fpga", "GPU-3")
    kubelet.claim("d", "gpu.nvidia.com", "gpu-4")
    kubelet.claim("e", "other.com", "gpu-5")

    assert await resources.read() == {
        "GPU-0": a_pod("a"), "GPU-1": a_pod("a"), "GPU-2": a_pod("a"), "MIG-7": a_pod("b"),
        "gpu-4": a_pod("d"),
    }  # fmt: skip


async def test_a_kubelet_that_is_not_there_is_asked_again(tmp_path):
    one = PodResources(tmp_path / "none.sock")

    with pytest.raises(Transient, match="UNAVAILABLE"):
        await one.read()
    await one.close()


async def test_the_labels_of_a_reading_are_those_of_its_devices(kubelet, resources):
    kubelet.give("a", "nvidia.com/gpu", "GPU-0")
    kubelet.give("b", "nvidia.com/mig-1g.10gb", "MIG-7")
    kubelet.claim("d", "gpu.nvidia.com", "gpu-2")
    part = InstanceReading(number=7, profile="1g.10gb", uuid="MIG-7", values={})
    reading = NodeReading(
        at_ms=1,
        gpus=(
            GpuReading(index=0, uuid="GPU-0", minor=0),
            GpuReading(index=1, uuid="GPU-1", minor=1, instances=(part,)),
            GpuReading(index=2, uuid="GPU-2", minor=2),
        ),
    )
    owners = DeviceOwners(resources)
    assert owners.of(reading) == {}

    await owners.refresh()

    assert owners.of(reading) == {
        "GPU-0": a_pod("a"), "MIG-7": a_pod("b"), "GPU-2": a_pod("d"),
    }  # fmt: skip


async def test_while_the_kubelet_is_away_no_pod_is_told():
    class Away:
        answers = True

        async def read(self) -> dict[str, PodOfDevice]:
            if not self.answers:
                raise Transient("away")
            return {"GPU-0": a_pod("a")}

        async def close(self) -> None:
            pass

    away = Away()
    owners = DeviceOwners(away)
    reading = NodeReading(at_ms=1, gpus=(GpuReading(index=0, uuid="GPU-0"),))
    await owners.refresh()
    assert owners.of(reading)

    away.answers = False
    await owners.refresh()

    assert owners.of(reading) == {}
