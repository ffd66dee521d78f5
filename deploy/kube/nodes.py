"""The simulated nodes: eight GPUs each, told in the three ways in which Kubernetes tells of GPUs.

| node | how its GPUs are known |
|---|---|
| number % 3 == 0 | a device plugin: the count `nvidia.com/gpu` in capacity and allocatable |
| number % 3 == 1 | DRA: a ResourceSlice with a device for each whole GPU |
| number % 3 == 2 | DRA with partitionable devices: whole GPUs and every legal MIG placement |

Labels are those of GPU feature discovery and of topology.kubernetes.io; slices and device
names are those that NVIDIA's DRA driver publishes.
"""

from collections.abc import Iterator
from typing import Any, Final

from deploy.kube.slices import mig_slices, whole_slice

GPUS_A_NODE: Final = 8
NODES_A_RACK: Final = 16
PRODUCT: Final = "NVIDIA-H100-80GB-HBM3"
MEMORY_MIB: Final = 81_559
DRIVER: Final = "580.95.05"
MANAGED: Final = "kwok.muster.dev/node"
"""The label of the nodes that KWOK plays; without it a node is dead."""
PLUGIN, WHOLE, MIG = "device-plugin", "dra", "dra-mig"
WAYS: Final = (PLUGIN, WHOLE, MIG)


def node_name(number: int) -> str:
    """The name of the node with this number."""
    return f"gpu-{number:04}"


def way_of(number: int) -> str:
    """How the GPUs of this node are told: device-plugin, dra or dra-mig."""
    return WAYS[number % len(WAYS)]


def objects_of(number: int, kubelet_port: int = 0) -> Iterator[dict[str, Any]]:
    """The Node and, where it has any, its ResourceSlices.

    `kubelet_port`: where the API server asks for logs of its pods; 0: nowhere.
    """
    yield _node(number, kubelet_port)
    name = node_name(number)
    if way_of(number) == WHOLE:
        yield whole_slice(name, _uuids(number))
    elif way_of(number) == MIG:
        yield from mig_slices(name, _uuids(number))


def _uuids(number: int) -> list[str]:
    return [f"GPU-{number:08x}-0000-4000-8000-{gpu:012x}" for gpu in range(GPUS_A_NODE)]


def _node(number: int, kubelet_port: int) -> dict[str, Any]:
    name = node_name(number)
    resources = {"cpu": "192", "memory": "2Ti", "pods": "256", "ephemeral-storage": "10Ti"}
    if way_of(number) == PLUGIN:
        resources["nvidia.com/gpu"] = str(GPUS_A_NODE)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(number)},
        "spec": {},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": "127.0.0.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
            "nodeInfo": _INFO,
        },
    }


def _labels(number: int) -> dict[str, str]:
    rack = number // NODES_A_RACK
    return {
        MANAGED: "simulated",
        "kubernetes.io/hostname": node_name(number),
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-0",
        "topology.kubernetes.io/zone": f"zone-{rack // 4}",
        "topology.muster.dev/rack": f"rack-{rack}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": PRODUCT,
        "nvidia.com/gpu.count": str(GPUS_A_NODE),
        "nvidia.com/gpu.memory": str(MEMORY_MIB),
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/cuda.driver-version.full": DRIVER,
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "none" if way_of(number) != MIG else "mixed",
    }


_INFO: Final = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.8.0",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.37.2",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Debian GNU/Linux 12",
    "systemUUID": "",
}
