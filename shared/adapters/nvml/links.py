"""Links between the GPUs of a node, and the NVLink domain that it is part of."""

from __future__ import annotations

import ctypes
from collections import Counter
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from shared.adapters.nvml.library import Library, text

LINKS_MAX: Final = 36
BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
ANCESTORS: Final = {0: "I", 10: "I", 20: "P", 30: "H", 40: "N", 50: "S"}
"""Common ancestor in the topology, as core/cluster/node_links.py spells it."""
FABRIC_READY: Final = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED."""


def links_of(library: Library, handles: list[Any]) -> str:
    """A character for each pair; one for all when they are equal (cluster/node_links.py)."""
    buses = [library.pci(one) for one in handles]
    peers = [_peers(library, one) for one in handles]
    pairs = [
        _pair(library, handles, peers, buses, (low, high))
        for low in range(len(handles))
        for high in range(low + 1, len(handles))
    ]
    return pairs[0] if len(set(pairs)) == 1 else "".join(pairs)


def clique_of(library: Library, handle: Any) -> str:  # noqa: ANN401
    """NVLink domain that spans nodes, `<cluster UUID>.<clique>`; empty: none.

    Source: GPU feature discovery writes the same into the label `nvidia.com/gpu.clique`.
    """
    return library.ask(lambda: _clique(library.nvml, handle), "")


def _clique(nvml: Any, handle: Any) -> str:  # noqa: ANN401
    told = nvml.c_nvmlGpuFabricInfoV_t()
    told.version = nvml.nvmlGpuFabricInfo_v2
    nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(told))
    cluster = bytes(told.clusterUuid)
    if told.state != FABRIC_READY or not any(cluster):
        return ""
    return f"{UUID(bytes=cluster)}.{int(told.cliqueId)}"


def _peers(library: Library, handle: Any) -> Counter[str]:  # noqa: ANN401
    """Active NVLinks by the address of the other end; "" stands for a switch."""
    nvml = library.nvml
    ends: Counter[str] = Counter()
    for link in range(LINKS_MAX):
        with suppress(nvml.NVMLError):
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
                switch = kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
                far = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
                ends["" if switch else text(far.busId)] += 1
    return ends


def _pair(
    library: Library,
    handles: list[Any],
    peers: list[Counter[str]],
    buses: list[str],
    pair: tuple[int, int],
) -> str:
    low, high = pair
    links = peers[low][buses[high]] or min(peers[low][""], peers[high][""])
    if links:
        return BASE36[min(links, len(BASE36) - 1)]
    ask = library.nvml.nvmlDeviceGetTopologyCommonAncestor
    return ANCESTORS.get(library.ask(lambda: int(ask(handles[low], handles[high])), 50), "S")
