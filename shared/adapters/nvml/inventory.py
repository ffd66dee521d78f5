"""What the devices of a node are: product, memory, PCI, NUMA, links, MIG mode and instances.

What an old driver does not tell is left at its default. The NUMA node is the kernel's
(adapters/pci.py), else that of the nearest memory as NVML knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from shared.adapters.nvml.library import MIB, DeviceLostError, Library, text
from shared.adapters.nvml.links import clique_of, links_of
from shared.adapters.nvml.slices import instances_of, placements_of
from shared.adapters.pci import DEVICES, numa_of
from shared.core.model.nouns import Gpu
from shared.core.telemetry.readings import DeviceInventory

NODE_WORDS: Final = 16
"""64-bit words for a set of NUMA nodes; Linux knows at most 1,024 of them."""


def read_inventory(
    library: Library,
    *,
    begin: Callable[[int], None],
    skip: Collection[int] = (),
    devices: Path = DEVICES,
) -> DeviceInventory:
    """Every GPU that answers; one that is lost is left out, and keeps its index.

    `begin` is told the index of each GPU before it is asked; those of `skip` are left alone.

    Raises:
        DriverGoneError: NVML does not work as a whole.
    """
    nvml = library.nvml
    answering = []
    for index in range(nvml.nvmlDeviceGetCount()):
        if index not in skip:
            begin(index)
            handle = library.handle(index)
            gpu = None if handle is None else _gpu(library, index, handle, devices)
            if gpu is not None:
                answering.append((handle, gpu))
    handles = [handle for handle, _ in answering]
    cuda = library.ask(lambda: int(nvml.nvmlSystemGetCudaDriverVersion_v2()), 0)
    product = text(nvml.nvmlDeviceGetName(handles[0])) if handles else ""
    return DeviceInventory(
        product=product.replace(" ", "-"),
        driver=library.driver(),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        gpus=tuple(gpu for _, gpu in answering),
        links=links_of(library, handles),
        clique=clique_of(library, handles[0]) if handles else "",
    )


def _gpu(library: Library, index: int, handle: Any, devices: Path) -> Gpu | None:  # noqa: ANN401
    nvml = library.nvml
    try:
        placements = placements_of(library, handle)
        mig = library.mig(handle)
        pci = library.pci(handle)
        instances = instances_of(library, handle, placements) if mig else ()
        return Gpu(
            index=index,
            uuid=library.uuid(handle),
            memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB,
            mig=mig,
            numa=_numa(library, handle, pci, devices),
            pci=pci,
            mig_placements=placements,
            mig_instances=tuple(one.placed for one in instances),
        )
    except (DeviceLostError, nvml.NVMLError):
        return None


def _numa(library: Library, handle: Any, pci: str, devices: Path) -> int:  # noqa: ANN401
    """NUMA node of the processor beside the GPU; 0 where neither kernel nor NVML knows it."""
    known = numa_of(pci, devices)
    return library.ask(lambda: _nearest_memory(library, handle), 0) if known is None else known


def _nearest_memory(library: Library, handle: Any) -> int:  # noqa: ANN401
    """The lowest NUMA node of those with memory that NVML holds for nearest."""
    nvml = library.nvml
    scope = nvml.NVML_AFFINITY_SCOPE_NODE
    words = nvml.nvmlDeviceGetMemoryAffinity(handle, NODE_WORDS, scope)
    nodes = sum(int(word) << 64 * at for at, word in enumerate(words))
    return (nodes & -nodes).bit_length() - 1 if nodes else 0
