"""The values of one GPU, by the names of DCGM: quick ones each time, slow ones now and then.

A call costs 3 to 300 us on an H200, those for energy, violations and margins 1 to 3 ms. What
changes slowly, or costs much, is read in full every ten seconds, and at once when the driver told
that something happened; in between it keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from shared.adapters.nvml.gpm import Gpm
from shared.adapters.nvml.instance_readings import (
    MEMORY,
    NOTHING,
    instance_readings,
    memory_mib,
)
from shared.adapters.nvml.library import MIB, NO_ID, Library, instance_of, text
from shared.adapters.nvml.slices import placements_of
from shared.core.model.nouns import MigPlacements
from shared.core.model.value import Value, replace
from shared.core.telemetry.metrics import PREFIX, RECOVERY_ACTION
from shared.core.telemetry.readings import GpuReading, ProcessReading

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
    *((one, NO_ID) for one in (_SENT_KIB, _RECEIVED_KIB, _SENT_BYTES, _RECEIVED_BYTES)),
]
_NO_PROCESSES: Final[tuple[ProcessReading, ...]] = ()
_NO_VALUES: Final[dict[str, float]] = {}
_UNION: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of the union by NVML's type of value."""
Calls = Sequence[tuple[tuple[str, ...], Callable[[], tuple[float, ...]]]]
"""Names of values, and the call that tells them."""


class SlowReading(Value, frozen=True, kw_only=True):
    """What changes slowly, or costs much, of one GPU."""

    reading: GpuReading
    placements: tuple[MigPlacements, ...] = ()
    """Where its instances (MIG) may be; none: it is not in MIG mode."""


class Readings:
    """Reads one GPU after the other; keeps what is read in full now and then."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._gpm = Gpm(library)
        self._slow: dict[str, SlowReading] = {}
        """By UUID, as it was read in full last."""

    def read(self, index: int, handle: Any, *, full: bool) -> GpuReading:  # noqa: ANN401
        """All that is told of a GPU; not `full`: what changes slowly as it was.

        Raises:
            DeviceLostError: the device is not reached.
            DriverGoneError: NVML does not work as a whole.
        """
        library = self._library
        uuid = library.ask(lambda: library.uuid(handle), "")
        known = self._slow.get(uuid)
        if full or known is None or known.reading.index != index:
            known = self._slow[uuid] = self._read_slow(index, uuid, handle)
        values = {**known.reading.values, **self._told(self._quick_calls(handle))}
        values |= self._gpm.read(uuid, handle)
        gpm = self._gpm
        instances = instance_readings(library, gpm, (uuid, handle), known.placements)
        processes = library.ask(lambda: self._processes(handle), _NO_PROCESSES)
        return replace(known.reading, values=values, instances=instances, processes=processes)

    def _read_slow(self, index: int, uuid: str, handle: Any) -> SlowReading:  # noqa: ANN401
        library, nvml = self._library, self._library.nvml
        values = self._told(self._slow_calls(handle))
        values |= library.ask(lambda: self._fields(handle), _NO_VALUES)
        reading = GpuReading(
            index=index,
            uuid=uuid,
            pci=library.ask(lambda: library.pci(handle), ""),
            model=library.ask(lambda: text(nvml.nvmlDeviceGetName(handle)), ""),
            minor=library.ask(lambda: int(nvml.nvmlDeviceGetMinorNumber(handle)), index),
            values=values,
        )
        placements = placements_of(library, handle) if library.mig(handle) else ()
        return SlowReading(reading=reading, placements=placements)

    def _told(self, calls: Calls) -> dict[str, float]:
        values: dict[str, float] = {}
        for names, call in calls:
            told = self._library.ask(call, NOTHING)
            values |= dict(zip((PREFIX + name for name in names), told, strict=False))
        return values

    def _quick_calls(self, handle: Any) -> Calls:  # noqa: ANN401
        nvml = self._library.nvml
        return [
            (("DEV_SM_CLOCK",), lambda: (nvml.nvmlDeviceGetClockInfo(handle, 1),)),
            (("DEV_MEM_CLOCK",), lambda: (nvml.nvmlDeviceGetClockInfo(handle, 2),)),
            (("DEV_GPU_TEMP",), lambda: (self._celsius(handle),)),
            (("DEV_POWER_USAGE",), lambda: (nvml.nvmlDeviceGetPowerUsage(handle) / 1000,)),
            (("DEV_GPU_UTIL", "DEV_MEM_COPY_UTIL"), lambda: _rates(nvml, handle)),
            (("DEV_ENC_UTIL",), lambda: nvml.nvmlDeviceGetEncoderUtilization(handle)[:1]),
            (("DEV_DEC_UTIL",), lambda: nvml.nvmlDeviceGetDecoderUtilization(handle)[:1]),
            (MEMORY, lambda: memory_mib(self._library, handle)),
            (
                ("DEV_CLOCKS_EVENT_REASONS",),
                lambda: (nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),),
            ),
        ]

    def _slow_calls(self, handle: Any) -> Calls:  # noqa: ANN401
        nvml = self._library.nvml
        names = {
            "DEV_FAN_SPEED": lambda: nvml.nvmlDeviceGetFanSpeed(handle),
            "DEV_SLOWDOWN_TEMP": lambda: nvml.nvmlDeviceGetTemperatureThreshold(handle, SLOWDOWN),
            "DEV_POWER_MGMT_LIMIT": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "DEV_PCIE_LINK_GEN": lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
            "DEV_PCIE_LINK_WIDTH": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
            "DEV_PCIE_MAX_LINK_GEN": lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
            "DEV_PCIE_MAX_LINK_WIDTH": lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
        }
        return [((name,), lambda call=call: (call(),)) for name, call in names.items()]  # type: ignore[misc]

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
                instance=instance_of(one.gpuInstanceId),
            )
            for one in self._library.nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        )


_BANDWIDTH: Final = PREFIX + "DEV_NVLINK_BANDWIDTH_TOTAL"


def _rates(nvml: Any, handle: Any) -> tuple[float, ...]:  # noqa: ANN401
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory
