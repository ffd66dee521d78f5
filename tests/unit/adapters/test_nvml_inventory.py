"""A node read through a library that answers as NVML does, errors included."""

# ruff: noqa: N802, N815  # the names are NVML's

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from shared.adapters.nvml.inventory import read_inventory
from shared.adapters.nvml.library import Library
from shared.adapters.pci import numa_of
from shared.core.model.mig.reported import problem_of, reported_by, table_of
from shared.core.model.nouns import MigInstance, Node
from shared.core.telemetry.readings import DeviceInventory

GIB = 1 << 30


class NVMLError(Exception):
    pass


class Placement(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]


class Fabric(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("clusterUuid", ctypes.c_uint8 * 16),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint32),
    ]


class TwoBoards:
    """Two H100 on an NVSwitch; GPU 1 is in MIG mode and has two instances."""

    NVML_TEMPERATURE_GPU = 0
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_GPU_INSTANCE_PROFILE_COUNT = 4
    NVML_AFFINITY_SCOPE_NODE = 0
    NVMLError = NVMLError
    c_nvmlGpuInstancePlacement_t = Placement
    c_nvmlGpuInstance_t = ctypes.c_int
    c_nvmlGpuFabricInfoV_t = Fabric
    nvmlGpuFabricInfo_v2 = 2
    PROFILES: ClassVar[dict[int, tuple[int, str, int, int, Sequence[int]]]] = {
        0: (19, "MIG 1g.10gb", 1, 1, range(7)),
        1: (14, "MIG 2g.20gb", 2, 2, (0, 2, 4)),
        3: (0, "MIG 7g.80gb", 7, 8, (0,)),
    }

    def __init__(self) -> None:
        self.switch = True
        self.old = False
        self.mig = [0, 1]
        self.bridged = 0
        self.ancestor = 20
        self.fabric = (3, bytes(16), 7)
        self.nearest = [1 << 3 | 1 << 5, 1 << 66]

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, _: int) -> bytes:
        return b"NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, _: int) -> Any:
        return SimpleNamespace(total=80 * GIB, used=3 * GIB)

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{handle}B:00.0")

    def nvmlDeviceGetNumaNodeId(self, handle: int) -> int:
        """Answers only where GPUs are NUMA nodes themselves (Grace): each is one of its own."""
        return 8 * (handle + 1)

    def nvmlDeviceGetMemoryAffinity(self, handle: int, words: int, scope: int) -> Any:
        self._unless_old()
        assert scope == self.NVML_AFFINITY_SCOPE_NODE
        mask, word = self.nearest[handle], (1 << 64) - 1
        return (ctypes.c_ulonglong * words)(*(mask >> 64 * at & word for at in range(words)))

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        self._unless_old()
        return self.mig[handle], 0

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12_080

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._unless_old()
        return SimpleNamespace(gpu=40 + handle)

    def nvmlDeviceGetTemperature(self, _: int, sensor: int) -> int:
        return 55 + sensor

    def nvmlDeviceGetPowerUsage(self, _: int) -> int:
        return 412_500

    def nvmlDeviceGetGpuInstanceProfileInfo(self, _: int, number: int, version: int) -> Any:
        if self.old or number not in self.PROFILES or version != 2:
            raise NVMLError
        identity, name, compute, _size, _starts = self.PROFILES[number]
        return SimpleNamespace(id=identity, name=name, sliceCount=compute)

    def nvmlDeviceGetGpuInstancePossiblePlacements(
        self, _: int, profile: int, places: Any, count: Any
    ) -> None:
        (found,) = [one for one in self.PROFILES.values() if one[0] == profile]
        size, starts = found[3:]
        for at, start in enumerate(starts):
            places[at] = Placement(start, size)
        count._obj.value = len(starts)

    def nvmlDeviceGetGpuInstances(self, _: int, profile: int, found: Any, count: Any) -> None:
        if profile != 14:
            raise NVMLError
        found[0], found[1] = 4, 0
        count._obj.value = 2

    def nvmlGpuInstanceGetInfo(self, instance: int) -> Any:
        return SimpleNamespace(placement=Placement(instance, 2))

    def nvmlDeviceGetNvLinkState(self, _: int, link: int) -> int:
        if link >= 18:
            raise NVMLError
        return int(self.switch or link < self.bridged)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, _: int, link: int) -> int:
        return 2 if self.switch else 0 * link

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, _: int) -> Any:
        return SimpleNamespace(busId=b"00000000:%dB:00.0" % (1 - handle))

    def nvmlDeviceGetGpuFabricInfoV(self, _: int, told: Any) -> None:
        told._obj.state, cluster, told._obj.cliqueId = self.fabric
        told._obj.clusterUuid[:] = cluster

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        assert one != other
        return self.ancestor

    def _unless_old(self) -> None:
        if self.old:
            raise NVMLError


@pytest.fixture
def library() -> TwoBoards:
    return TwoBoards()


def inventory(library: TwoBoards, devices: Path = Path("/no/devices")) -> DeviceInventory:
    return read_inventory(Library(library), begin=lambda _: None, devices=devices)


def kernel_files(folder: Path, **nodes: str) -> Path:
    """The kernel's files of devices 0B and 1B of domain 0, with what it tells of each."""
    for bus, told in nodes.items():
        device = folder / f"0000:{bus.removeprefix('bus_')}:00.0"
        device.mkdir()
        (device / "numa_node").write_text(f"{told}\n")
    return folder


def test_the_inventory_is_what_nvml_tells(library):
    found = inventory(library)

    assert (found.product, found.clique) == ("NVIDIA-H100-80GB-HBM3", "")
    assert (found.driver, found.cuda, found.links) == ("570.86.15", "12.8", "i")
    assert [(gpu.index, gpu.uuid, gpu.memory_mib, gpu.numa, gpu.mig) for gpu in found.gpus] == [
        (0, "GPU-0", 81_920, 3, False),
        (1, "GPU-1", 81_920, 66, True),
    ]
    assert found.gpus[1].pci == "00000000:1B:00.0"


def numas(found: DeviceInventory) -> list[int]:
    return [gpu.numa for gpu in found.gpus]


def test_the_numa_node_is_the_kernels_for_the_pci_device_and_not_the_gpus_own_memory(
    library, tmp_path
):
    found = inventory(library, kernel_files(tmp_path, bus_0b="1", bus_1b="0"))

    assert numas(found) == [1, 0]


@pytest.mark.parametrize("told", ["-1", "", "what"])
def test_where_the_kernel_does_not_know_the_numa_node_the_nearest_memory_tells(
    library, tmp_path, told
):
    found = inventory(library, kernel_files(tmp_path, bus_0b=told, bus_1b="7"))

    assert numas(found) == [3, 7]


def test_a_numa_node_that_nobody_knows_is_nought(library, tmp_path):
    library.nearest = [0, 0]

    assert numas(inventory(library, kernel_files(tmp_path, bus_0b="-1"))) == [0, 0]


@pytest.mark.parametrize(
    ("bus", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0008:01:00.0", "0008:01:00.0"),
        ("00010000:C1:00.0", "10000:c1:00.0"),
    ],
)
def test_the_kernel_writes_the_address_of_a_device_in_lower_case_with_a_short_domain(
    tmp_path, bus, address
):
    (tmp_path / address).mkdir()
    (tmp_path / address / "numa_node").write_text("5\n")

    assert numa_of(bus, tmp_path) == 5


@pytest.mark.parametrize("bus", ["", "..", "0000:1b:00", "00000000:2B:00.0"])
def test_what_is_no_address_of_a_device_here_has_no_numa_node(tmp_path, bus):
    (tmp_path / "numa_node").write_text("5")

    assert numa_of(bus, tmp_path) is None


def test_positions_are_told_with_mig_on_and_off_and_instances_with_it_on(library):
    whole, sliced = inventory(library).gpus

    assert whole.mig_placements == sliced.mig_placements
    assert problem_of(whole.mig_placements) == ""
    assert [(one.profile, one.profile_id, one.size) for one in whole.mig_placements] == [
        ("1g.10gb", 19, 1), ("2g.20gb", 14, 2), ("7g.80gb", 0, 8),
    ]  # fmt: skip
    assert whole.mig_instances == ()
    assert sliced.mig_instances == (
        MigInstance(profile="2g.20gb", start=0, size=2),
        MigInstance(profile="2g.20gb", start=4, size=2),
    )


def test_the_core_understands_the_report(library):
    found = inventory(library)
    node = Node(name="n1", flavor="h100", product="", cpu_milli=1, memory_mib=1, gpus=found.gpus)
    table = table_of(found.product, found.gpus[0].memory_mib, reported_by(node))

    assert table is not None
    assert table.room(0, "1g.10gb") == 7
    assert "3g.40gb" not in table.profiles


@pytest.mark.parametrize(
    ("bridged", "ancestor", "links"), [(4, 20, "4"), (0, 20, "P"), (0, 50, "S"), (0, 99, "S")]
)
def test_links_between_two_gpus_are_counted_or_their_way_is_told(
    library, bridged, ancestor, links
):
    library.switch, library.bridged, library.ancestor = False, bridged, ancestor

    assert inventory(library).links == links


def test_an_old_driver_leaves_out_what_it_cannot_tell(library):
    library.old = True

    gpu = inventory(library).gpus[1]

    assert (gpu.mig, gpu.numa, gpu.mig_placements) == (False, 0, ())


@pytest.mark.parametrize(
    ("state", "cluster", "clique"),
    [
        (3, bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f.7"),
        (2, bytes(range(16)), ""),
        (3, bytes(16), ""),
    ],
)
def test_the_nvlink_domain_is_told_once_the_fabric_is_ready(library, state, cluster, clique):
    library.fabric = (state, cluster, 7)

    assert inventory(library).clique == clique


def test_a_gpu_that_is_left_alone_is_not_asked(library):
    begun: list[int] = []

    found = read_inventory(Library(library), begin=begun.append, skip=(0,))

    assert (begun, [gpu.index for gpu in found.gpus]) == ([1], [1])
