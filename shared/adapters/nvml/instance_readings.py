"""The values of the GPU instances (MIG) of a board, and what memory a device has."""

from __future__ import annotations

from typing import Any, Final

from shared.adapters.nvml.gpm import Gpm
from shared.adapters.nvml.library import MIB, Library
from shared.adapters.nvml.slices import instances_of
from shared.core.model.nouns import MigPlacements
from shared.core.telemetry.metrics import PREFIX
from shared.core.telemetry.readings import InstanceReading

MEMORY: Final = ("DEV_FB_TOTAL", "DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED")
NOTHING: Final[tuple[float, ...]] = ()


def instance_readings(
    library: Library,
    gpm: Gpm,
    device: tuple[str, Any],
    placements: tuple[MigPlacements, ...],
) -> tuple[InstanceReading, ...]:
    """Every instance of a device, (UUID, handle), by its first slice; none without placements."""
    if not placements:
        return ()
    uuid, handle = device
    devices = _mig_devices(library, handle)
    return tuple(
        InstanceReading(
            number=number,
            profile=placed.profile,
            start=placed.start,
            size=placed.size,
            uuid=_uuid(library, devices.get(number)),
            values=_memory_of(library, devices.get(number)) | gpm.read(uuid, handle, number),
        )
        for number, placed in instances_of(library, handle, placements)
    )


def memory_mib(library: Library, handle: Any) -> tuple[float, ...]:  # noqa: ANN401
    """Total, used, free, reserved; the first version counts the reserved as used."""
    nvml = library.nvml
    told = library.ask(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2), None
    )
    if told is None:
        told = nvml.nvmlDeviceGetMemoryInfo(handle)
        return told.total // MIB, told.used // MIB, told.free // MIB
    return told.total // MIB, told.used // MIB, told.free // MIB, told.reserved // MIB


def _mig_devices(library: Library, handle: Any) -> dict[int, Any]:  # noqa: ANN401
    """Handles of MIG devices by the number of their GPU instance; the first of each."""
    nvml = library.nvml
    devices: dict[int, Any] = {}
    count = library.ask(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)), 0)
    for at in range(count):
        device = library.ask(lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, at), None)  # noqa: B023
        if device is not None:
            devices.setdefault(int(nvml.nvmlDeviceGetGpuInstanceId(device)), device)
    return devices


def _uuid(library: Library, device: Any) -> str:  # noqa: ANN401
    return "" if device is None else library.ask(lambda: library.uuid(device), "")


def _memory_of(library: Library, device: Any) -> dict[str, float]:  # noqa: ANN401
    if device is None:
        return {}
    told = library.ask(lambda: memory_mib(library, device), NOTHING)
    return dict(zip((PREFIX + name for name in MEMORY), told, strict=False))
