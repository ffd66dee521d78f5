"""The values of one GPU, by the names of DCGM: a few quick calls, and one for all fields.

A call costs 3 to 300 us on an H200, those for energy, violations and margins 1 to 3 ms; fields
tell the same in one call, so what has a field is read there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from shared.adapters.nvml.gpm import Gpm
from shared.adapters.nvml.library import MIB, Library, text
from shared.adapters.nvml.slices import instances_of, placements_of
from shared.core.health.events import NO_INSTANCE
from shared.core.model.nouns import MigPlacements
from shared.core.telemetry.metrics import PREFIX, RECOVERY_ACTION
from shared.core.telemetry.readings import GpuReading, InstanceReading, ProcessReading

ALL_LINKS: Final = 0xFFFFFFFF
NONE: Final = 0xFFFFFFFF
SLOWDOWN: Final = 1
FIELDS: Final = {
    3: "DEV_ECC_SBE_VOL_TOTAL",
    4: "DEV_ECC_DBE_VOL_TOTAL",
    5: "DEV_ECC_SBE_AGG_TOTAL",
    6: "DEV_ECC_DBE_AGG_TOTAL",
    38: "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    45: "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    52: "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    59: "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
    74: "DEV_POWER_VIOLATION",
    75: "DEV_THERMAL_VIOLATION",
    82: "DEV_MEMORY_TEMP",
    83: "DEV_TOTAL_ENERGY_CONSUMPTION",
    94: "DEV_PCIE_REPLAY_COUNTER",
    142: "DEV_CORRECTABLE_REMAPPED_ROWS",
    143: "DEV_UNCORRECTABLE_REMAPPED_ROWS",
    144: "DEV_ROW_REMAP_PENDING",
    145: "DEV_ROW_REMAP_FAILURE",
}
RECOVERY_FIELD: Final = 230
_SENT_KIB, _RECEIVED_KIB = 138, 139
_SENT_BYTES, _RECEIVED_BYTES = 202, 204
_ASKED: Final = [
    *((one, 0) for one in (*FIELDS, RECOVERY_FIELD)),
    *((one, ALL_LINKS) for one in (_SENT_KIB, _RECEIVED_KIB, _SENT_BYTES, _RECEIVED_BYTES)),
]
_NOTHING: Final[tuple[float, ...]] = ()
_NO_VALUES: Final[dict[str, float]] = {}
_UNION: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of the union by NVML's type of value."""


class Readings:
    """Reads one GPU after the other; keeps the samples of GPM between two readings."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._gpm = Gpm(library)
        self._placements: dict[str, tuple[MigPlacements, ...]] = {}

    def read(self, index: int, handle: Any) -> GpuReading:  # noqa: ANN401
        """All that is told of a GPU.

        Raises:
            DeviceLostError: the device is not reached.
            DriverGoneError: NVML does not work as a whole.
        """
        library, nvml = self._library, self._library.nvml
        uuid = library.ask(lambda: library.uuid(handle), "")
        sliced = library.mig(handle)
        instances = self._instances(uuid, handle) if sliced else ()
        return GpuReading(
            index=index,
            uuid=uuid,
            pci=library.ask(lambda: library.pci(handle), ""),
            model=library.ask(lambda: text(nvml.nvmlDeviceGetName(handle)), ""),
            minor=library.ask(lambda: int(nvml.nvmlDeviceGetMinorNumber(handle)), index),
            values=self._values(uuid, handle),
            instances=instances,
            processes=library.ask(lambda: self._processes(handle), ()),
        )

    def _values(self, uuid: str, handle: Any) -> dict[str, float]:  # noqa: ANN401
        library = self._library
        values: dict[str, float] = {}
        for names, call in self._calls(handle):
            told = library.ask(call, _NOTHING)
            values |= dict(zip((PREFIX + name for name in names), told, strict=False))
        values |= library.ask(lambda: self._fields(handle), _NO_VALUES)
        values |= self._gpm.read(uuid, handle)
        return values

    def _calls(
        self,
        handle: Any,  # noqa: ANN401
    ) -> list[tuple[tuple[str, ...], Callable[[], tuple[float, ...]]]]:
        nvml = self._library.nvml
        return [
            (("DEV_SM_CLOCK",), lambda: (nvml.nvmlDeviceGetClockInfo(handle, 1),)),
            (("DEV_MEM_CLOCK",), lambda: (nvml.nvmlDeviceGetClockInfo(handle, 2),)),
            (("DEV_GPU_TEMP",), lambda: (self._celsius(handle),)),
            (("DEV_POWER_USAGE",), lambda: (nvml.nvmlDeviceGetPowerUsage(handle) / 1000,)),
            (("DEV_GPU_UTIL", "DEV_MEM_COPY_UTIL"), lambda: _rates(nvml, handle)),
            (("DEV_ENC_UTIL",), lambda: nvml.nvmlDeviceGetEncoderUtilization(handle)[:1]),
            (("DEV_DEC_UTIL",), lambda: nvml.nvmlDeviceGetDecoderUtilization(handle)[:1]),
            (
                ("DEV_FB_TOTAL", "DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED"),
                lambda: _memory(self._library, handle),
            ),
            (
                ("DEV_CLOCKS_EVENT_REASONS",),
                lambda: (nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),),
            ),
            (("DEV_FAN_SPEED",), lambda: (nvml.nvmlDeviceGetFanSpeed(handle),)),
            (
                ("DEV_SLOWDOWN_TEMP",),
                lambda: (nvml.nvmlDeviceGetTemperatureThreshold(handle, SLOWDOWN),),
            ),
            (
                ("DEV_POWER_MGMT_LIMIT",),
                lambda: (nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,),
            ),
            (("DEV_PCIE_LINK_GEN",), lambda: (nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),)),
            (("DEV_PCIE_LINK_WIDTH",), lambda: (nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),)),
            (
                ("DEV_PCIE_MAX_LINK_GEN",),
                lambda: (nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),),
            ),
            (("DEV_PCIE_MAX_LINK_WIDTH",), lambda: (nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),)),
        ]

    def _celsius(self, handle: Any) -> int:  # noqa: ANN401
        nvml = self._library.nvml
        told = self._library.ask(lambda: nvml.nvmlDeviceGetTemperatureV(handle, 0), None)
        return int(nvml.nvmlDeviceGetTemperature(handle, 0) if told is None else told)

    def _fields(self, handle: Any) -> dict[str, float]:  # noqa: ANN401
        """Each value has a return code of its own."""
        told = {}
        for one in self._library.nvml.nvmlDeviceGetFieldValues(handle, _ASKED):
            if one.nvmlReturn == 0 and one.valueType < len(_UNION):
                told[int(one.fieldId)] = float(getattr(one.value, _UNION[one.valueType]))
        values = {PREFIX + name: told[one] for one, name in FIELDS.items() if one in told}
        if RECOVERY_FIELD in told:
            values[RECOVERY_ACTION] = told[RECOVERY_FIELD]
        if _SENT_KIB in told and _RECEIVED_KIB in told:
            values[_BANDWIDTH] = told[_SENT_KIB] + told[_RECEIVED_KIB]
        elif _SENT_BYTES in told and _RECEIVED_BYTES in told:
            values[_BANDWIDTH] = (told[_SENT_BYTES] + told[_RECEIVED_BYTES]) // 1024
        return values

    def _processes(self, handle: Any) -> tuple[ProcessReading, ...]:  # noqa: ANN401
        return tuple(
            ProcessReading(
                pid=int(one.pid),
                memory_mib=None if one.usedGpuMemory is None else int(one.usedGpuMemory) // MIB,
                instance=NO_INSTANCE if one.gpuInstanceId == NONE else int(one.gpuInstanceId),
            )
            for one in self._library.nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        )

    def _instances(self, uuid: str, handle: Any) -> tuple[InstanceReading, ...]:  # noqa: ANN401
        library = self._library
        if uuid not in self._placements:
            self._placements[uuid] = placements_of(library, handle)
        devices = _mig_devices(library, handle)
        return tuple(
            InstanceReading(
                number=number,
                profile=placed.profile,
                uuid=_uuid(library, devices.get(number)),
                values=_memory_of_instance(library, devices.get(number))
                | self._gpm.read(uuid, handle, number),
            )
            for number, placed in instances_of(library, handle, self._placements[uuid])
        )


_BANDWIDTH: Final = PREFIX + "DEV_NVLINK_BANDWIDTH_TOTAL"


def _rates(nvml: Any, handle: Any) -> tuple[float, ...]:  # noqa: ANN401
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _memory(library: Library, handle: Any) -> tuple[float, ...]:  # noqa: ANN401
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


def _memory_of_instance(library: Library, device: Any) -> dict[str, float]:  # noqa: ANN401
    if device is None:
        return {}
    names = ("DEV_FB_TOTAL", "DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED")
    told = library.ask(lambda: _memory(library, device), _NOTHING)
    return dict(zip((PREFIX + name for name in names), told, strict=False))
