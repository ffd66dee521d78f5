"""A node read through NVML: product, memory, PCI, NUMA, links, MIG mode, positions, instances.

`nvidia-ml-py` is asked for by name when a probe is opened, so that only nodes with GPUs need it
(the extra `agent`); tests hand in a library of their own. What NVML cannot know (name, flavor,
rack, CPU) comes from a description. What an old driver does not tell is left at its default.
Positions are asked whether or not MIG is on; names are the driver's.
The NUMA node is the kernel's (adapters/pci.py), else that of the nearest memory as NVML knows it.
"""

from __future__ import annotations

import ctypes
import importlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from shared.adapters.pci import DEVICES, numa_of
from shared.core.model.nouns import Gpu, MigInstance, MigPlacements, Node
from shared.core.model.value import replace
from shared.events.nodes import GpuHealthReported, GpuUsageReported, NodeNoticeReported
from shared.ports.clock import Clock

Told = TypeVar("Told")
LIBRARY: Final = "pynvml"
MIB: Final = 1 << 20
ROOM: Final = 32
"""Entries of an array that NVML fills; a board has at most eight slices."""
LINKS_MAX: Final = 36
NODE_WORDS: Final = 16
"""64-bit words for a set of NUMA nodes; Linux knows at most 1,024 of them."""
BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
ANCESTORS: Final = {0: "I", 10: "I", 20: "P", 30: "H", 40: "N", 50: "S"}
"""Common ancestor in the topology, as core/cluster/node_links.py spells it."""


class NvmlProbe:
    """`ports.probe.GpuProbe` on one node; `nvml` has the functions of the library."""

    def __init__(
        self,
        described: Node,
        *,
        nvml: Any,  # noqa: ANN401  # untyped library
        clock: Clock,
        cell: int = 0,
        devices: Path = DEVICES,
    ) -> None:
        self._devices = devices
        self._described = described
        self._nvml = nvml
        self._clock = clock
        self._cell = cell
        nvml.nvmlInit()
        self._node = self._read()
        self.generation = clock.now_ms()

    @property
    def name(self) -> str:
        """The node's name."""
        return self._described.name

    def inventory(self) -> Node:
        """The node as it was read last."""
        return self._node

    def changes(self) -> list[GpuHealthReported | NodeNoticeReported]:
        """Reads the node again, so that a new inventory is told; health is not judged here."""
        node = self._read()
        if node != self._node:
            self._node = node
            self.generation = max(self._clock.now_ms(), self.generation + 1)
        return []

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Use of every GPU; 0 for what its driver does not tell, as of boards in MIG mode."""
        rows = [self._use(self._handle(gpu.index)) for gpu in self._node.gpus]
        unread = tuple(index for index, row in enumerate(rows) if row[0] is None)
        use, memory, celsius, watts = zip(*rows, strict=True) if rows else ((), (), (), ())
        return GpuUsageReported(
            node=self.name,
            at_ms=at_ms,
            utilization_percent=tuple(one or 0 for one in use),
            memory_used_mib=memory,
            temperature_celsius=celsius,
            power_watts=watts,
            unread=unread,
            cell=self._cell,
        )

    def _handle(self, index: int) -> Any:  # noqa: ANN401
        return self._nvml.nvmlDeviceGetHandleByIndex(index)

    def _told(self, ask: Callable[[], Told], otherwise: Told) -> Told:
        with suppress(self._nvml.NVMLError):
            return ask()
        return otherwise

    def _use(self, handle: Any) -> tuple[int | None, int, int, int]:  # noqa: ANN401
        nvml = self._nvml
        sensor = nvml.NVML_TEMPERATURE_GPU
        return (
            self._told(lambda: self._percent(handle), None),
            self._told(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used) // MIB, 0),
            self._told(lambda: int(nvml.nvmlDeviceGetTemperature(handle, sensor)), 0),
            self._told(lambda: int(nvml.nvmlDeviceGetPowerUsage(handle)) // 1000, 0),
        )

    def _percent(self, handle: Any) -> int | None:  # noqa: ANN401
        return int(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu)

    # ── inventory ──

    def _read(self) -> Node:
        nvml = self._nvml
        handles = [self._handle(index) for index in range(nvml.nvmlDeviceGetCount())]
        cuda = self._told(lambda: int(nvml.nvmlSystemGetCudaDriverVersion_v2()), 0)
        product = _text(nvml.nvmlDeviceGetName(handles[0])) if handles else ""
        return replace(
            self._described,
            product=product.replace(" ", "-"),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            gpus=tuple(self._gpu(index, handle) for index, handle in enumerate(handles)),
            links=self._links(handles),
        )

    def _gpu(self, index: int, handle: Any) -> Gpu:  # noqa: ANN401
        nvml = self._nvml
        placements = self._placements(handle)
        mig = self._told(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]), otherwise=False)
        pci = _text(nvml.nvmlDeviceGetPciInfo(handle).busId)
        return Gpu(
            index=index,
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // MIB,
            mig=mig,
            numa=self._numa(handle, pci),
            pci=pci,
            mig_placements=placements,
            mig_instances=self._instances(handle, placements) if mig else (),
        )

    def _numa(self, handle: Any, pci: str) -> int:  # noqa: ANN401
        """NUMA node of the processor beside the GPU; 0 where neither kernel nor NVML knows it."""
        known = numa_of(pci, self._devices)
        return self._told(lambda: self._nearest_memory(handle), 0) if known is None else known

    def _nearest_memory(self, handle: Any) -> int:  # noqa: ANN401
        """The lowest NUMA node of those with memory that NVML holds for nearest."""
        nvml = self._nvml
        scope = nvml.NVML_AFFINITY_SCOPE_NODE
        words = nvml.nvmlDeviceGetMemoryAffinity(handle, NODE_WORDS, scope)
        nodes = sum(int(word) << 64 * at for at, word in enumerate(words))
        return (nodes & -nodes).bit_length() - 1 if nodes else 0

    def _placements(self, handle: Any) -> tuple[MigPlacements, ...]:  # noqa: ANN401
        numbers = range(self._nvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
        found = (self._told(lambda: self._placement(handle, one), None) for one in numbers)  # noqa: B023  # called at once
        return tuple(one for one in found if one is not None and one.starts)

    def _placement(self, handle: Any, number: int) -> MigPlacements | None:  # noqa: ANN401
        nvml = self._nvml
        profile = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number, version=2)
        places = (nvml.c_nvmlGpuInstancePlacement_t * ROOM)()
        count = ctypes.c_uint(ROOM)
        nvml.nvmlDeviceGetGpuInstancePossiblePlacements(
            handle, profile.id, places, ctypes.byref(count)
        )
        told = places[: count.value]
        return MigPlacements(
            profile=_text(profile.name).removeprefix("MIG "),
            compute=int(profile.sliceCount),
            size=int(told[0].size) if told else 0,
            starts=tuple(sorted(int(one.start) for one in told)),
            profile_id=int(profile.id),
        )

    def _instances(
        self,
        handle: Any,  # noqa: ANN401
        placements: tuple[MigPlacements, ...],
    ) -> tuple[MigInstance, ...]:
        nvml = self._nvml
        found: list[MigInstance] = []
        for one in placements:
            instances = (nvml.c_nvmlGpuInstance_t * ROOM)()
            count = ctypes.c_uint(ROOM)
            with suppress(nvml.NVMLError):
                nvml.nvmlDeviceGetGpuInstances(
                    handle, one.profile_id, instances, ctypes.byref(count)
                )
                for instance in instances[: count.value]:
                    place = nvml.nvmlGpuInstanceGetInfo(instance).placement
                    start, size = int(place.start), int(place.size)
                    found.append(MigInstance(profile=one.profile, start=start, size=size))
        return tuple(sorted(found, key=lambda each: each.start))

    # ── links ──

    def _links(self, handles: list[Any]) -> str:
        """A character for each pair; one for all when they are equal (cluster/node_links.py)."""
        nvml = self._nvml
        buses = [_text(nvml.nvmlDeviceGetPciInfo(one).busId) for one in handles]
        peers = [self._peers(one) for one in handles]
        pairs = [
            self._pair(handles, peers, buses, (low, high))
            for low in range(len(handles))
            for high in range(low + 1, len(handles))
        ]
        return pairs[0] if len(set(pairs)) == 1 else "".join(pairs)

    def _peers(self, handle: Any) -> Counter[str]:  # noqa: ANN401
        """Active NVLinks by the address of the other end; "" stands for a switch."""
        nvml = self._nvml
        ends: Counter[str] = Counter()
        for link in range(LINKS_MAX):
            with suppress(nvml.NVMLError):
                if nvml.nvmlDeviceGetNvLinkState(handle, link):
                    kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
                    switch = kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
                    far = nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
                    ends["" if switch else _text(far.busId)] += 1
        return ends

    def _pair(
        self,
        handles: list[Any],
        peers: list[Counter[str]],
        buses: list[str],
        pair: tuple[int, int],
    ) -> str:
        low, high = pair
        links = peers[low][buses[high]] or min(peers[low][""], peers[high][""])
        if links:
            return BASE36[min(links, len(BASE36) - 1)]
        ask = self._nvml.nvmlDeviceGetTopologyCommonAncestor
        return ANCESTORS.get(self._told(lambda: int(ask(handles[low], handles[high])), 50), "S")


def open_probe(described: Node, *, clock: Clock, cell: int = 0) -> NvmlProbe:
    """A probe on the NVML of this machine.

    Raises:
        ModuleNotFoundError: `nvidia-ml-py` is not installed (extra `agent`).
    """
    return NvmlProbe(described, nvml=importlib.import_module(LIBRARY), clock=clock, cell=cell)


def _text(told: str | bytes) -> str:
    """Older versions of the library answer in bytes."""
    return told.decode() if isinstance(told, bytes) else told
