"""How the GPUs of a node are had: by the count of a device plugin, or by the claims of a driver.

Both are those of the tests, the one thing here that is. Nodes with a driver are kept for a pool of
their own, so that nothing runs there that does not ask for it.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from deploy.kube import nodes as simulated
from deploy.kube.go_module import downloaded
from deploy.kube.programs import KUBELET, MODULES

GPUS_A_NODE: Final = 8
COUNTED: Final = ("node-0", "node-1")
CLAIMED: Final = ("node-2", "node-3")
NAMES: Final = (*COUNTED, *CLAIMED)
POOL: Final = "claims"
NODE_TAINTS: Final = "node.kubernetes.io/"
PLUGIN: Final = "tests.support.gpu_plugin"
DRIVER: Final = "tests.support.gpu_driver"
_LABELS: Final = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": simulated.PRODUCT,
    "nvidia.com/gpu.memory": str(simulated.MEMORY_MIB),
    "nvidia.com/gpu.count": str(GPUS_A_NODE),
}


def labels(name: str) -> Mapping[str, str]:
    """Of a node: those of GPU feature discovery, or its pool."""
    return _LABELS if name in COUNTED else {"muster.dev/pool": POOL}


def taints(name: str) -> Sequence[Mapping[str, str]]:
    """Of a node, from its start."""
    if name in COUNTED:
        return []
    return [{"key": "dedicated", "value": POOL, "effect": "NoSchedule"}]


def daemon(name: str, kubeconfig: Path) -> str:
    """The command that offers the GPUs of a node; `kubeconfig`: that of the node."""
    common = f"--node {name} --protocols {_protocols()}"
    if name in COUNTED:
        return f"{sys.executable} -m {PLUGIN} {common}"
    return f"{sys.executable} -m {DRIVER} {common} --kubeconfig {kubeconfig}"


def usable(nodes: Iterable[Mapping[str, Any]], slices: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names of those nodes that are Ready with all their GPUs."""
    with_slices = {one["spec"].get("nodeName") for one in slices}
    return {
        node["metadata"]["name"]
        for node in nodes
        if _is_ready(node)
        and (_has_all(node) or node["metadata"]["name"] in with_slices.intersection(CLAIMED))
    }


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", ())}
    ill = any(one["key"].startswith(NODE_TAINTS) for one in node["spec"].get("taints", ()))
    return conditions.get("Ready") == "True" and not ill


def _has_all(node: Mapping[str, Any]) -> bool:
    allocatable: Mapping[str, str] = node["status"].get("allocatable", {})
    return allocatable.get("nvidia.com/gpu") == str(GPUS_A_NODE)


def _protocols() -> Path:
    """The folder of the kubelet's Go module, in which the descriptions of its protocols lie.

    Raises:
        LocalError: it cannot be fetched.
    """
    return downloaded("k8s.io/kubelet", MODULES / KUBELET[0].folder)
