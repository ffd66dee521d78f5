"""The metrics of a device: names and units of dcgm-exporter, so that its dashboards work.

Source: the counters that dcgm-exporter 4.x exports, and the ids of DCGM's fields.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.core.model.value import Value

PREFIX: Final = "DCGM_FI_"


class MetricKind(StrEnum):
    """As Prometheus names it."""

    GAUGE = "gauge"
    COUNTER = "counter"


class DeviceMetric(Value, frozen=True, kw_only=True):
    """One metric of a GPU or of a GPU instance."""

    name: str
    kind: MetricKind
    text: str
    """What it is, with its unit."""


_GAUGES: Final = {
    "DEV_SM_CLOCK": "Clock of the multiprocessors, MHz.",
    "DEV_MEM_CLOCK": "Clock of the memory, MHz.",
    "DEV_GPU_TEMP": "Temperature of the GPU, degrees Celsius.",
    "DEV_MEMORY_TEMP": "Temperature of the memory, degrees Celsius.",
    "DEV_POWER_USAGE": "Power drawn, watts.",
    "DEV_GPU_UTIL": "Part of the time in which a kernel ran, per cent.",
    "DEV_MEM_COPY_UTIL": "Part of the time in which memory was read or written, per cent.",
    "DEV_ENC_UTIL": "Use of the encoders, per cent.",
    "DEV_DEC_UTIL": "Use of the decoders, per cent.",
    "DEV_XID_ERRORS": "XID of the last error; 0 when there was none since it was in service.",
    "DEV_FB_USED": "Memory in use, MiB.",
    "DEV_FB_FREE": "Memory that is free, MiB.",
    "DEV_FB_RESERVED": "Memory that the driver keeps, MiB.",
    "DEV_FB_TOTAL": "Memory in all, MiB.",
    "DEV_ROW_REMAP_FAILURE": "1 if a row of memory could not be replaced.",
    "DEV_ROW_REMAP_PENDING": "1 if a row of memory is replaced at the next reset.",
    "DEV_CLOCKS_EVENT_REASONS": "Why clocks are lower than they could be, bits of NVML.",
    "DEV_FAN_SPEED": "Speed of the fan, per cent.",
    "DEV_SLOWDOWN_TEMP": "Temperature at which the clocks are slowed down, degrees Celsius.",
    "DEV_POWER_MGMT_LIMIT": "Limit of the power that is enforced, watts.",
    "DEV_PCIE_LINK_GEN": "Generation of the PCIe link now.",
    "DEV_PCIE_LINK_WIDTH": "Lanes of the PCIe link now.",
    "DEV_PCIE_MAX_LINK_GEN": "Generation of the PCIe link at most.",
    "DEV_PCIE_MAX_LINK_WIDTH": "Lanes of the PCIe link at most.",
    "PROF_GR_ENGINE_ACTIVE": "Part of the time in which an engine was active, 0 to 1.",
    "PROF_SM_ACTIVE": "Part of the time in which multiprocessors had a warp, 0 to 1.",
    "PROF_SM_OCCUPANCY": "Warps resident, of as many as there could be, 0 to 1.",
    "PROF_PIPE_TENSOR_ACTIVE": "Part of the time in which the tensor pipe was active, 0 to 1.",
    "PROF_PIPE_FP64_ACTIVE": "Part of the time in which the FP64 pipe was active, 0 to 1.",
    "PROF_PIPE_FP32_ACTIVE": "Part of the time in which the FP32 pipe was active, 0 to 1.",
    "PROF_PIPE_FP16_ACTIVE": "Part of the time in which the FP16 pipe was active, 0 to 1.",
    "PROF_DRAM_ACTIVE": "Part of the time in which memory sent or received, 0 to 1.",
    "PROF_PCIE_TX_BYTES": "Sent over PCIe, bytes per second.",
    "PROF_PCIE_RX_BYTES": "Received over PCIe, bytes per second.",
}
_COUNTERS: Final = {
    "DEV_TOTAL_ENERGY_CONSUMPTION": "Energy since the driver was loaded, mJ.",
    "DEV_PCIE_REPLAY_COUNTER": "Replays on the PCIe link.",
    "DEV_NVLINK_BANDWIDTH_TOTAL": "Sent and received over all NVLinks, KiB.",
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": "Rows replaced for uncorrectable errors.",
    "DEV_CORRECTABLE_REMAPPED_ROWS": "Rows replaced for correctable errors.",
    "DEV_ECC_SBE_VOL_TOTAL": "Single-bit errors since the driver was loaded.",
    "DEV_ECC_DBE_VOL_TOTAL": "Double-bit errors since the driver was loaded.",
    "DEV_ECC_SBE_AGG_TOTAL": "Single-bit errors in all.",
    "DEV_ECC_DBE_AGG_TOTAL": "Double-bit errors in all.",
    "DEV_THERMAL_VIOLATION": "Time slowed down for heat, ns.",
    "DEV_POWER_VIOLATION": "Time slowed down for power, ns.",
    "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": "CRC errors of flits on NVLinks.",
    "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": "CRC errors of data on NVLinks.",
    "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": "Replays on NVLinks.",
    "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": "Recoveries of NVLinks.",
}


def _table() -> dict[str, DeviceMetric]:
    rows = [(name, MetricKind.GAUGE, text) for name, text in _GAUGES.items()]
    rows += [(name, MetricKind.COUNTER, text) for name, text in _COUNTERS.items()]
    return {
        PREFIX + name: DeviceMetric(name=PREFIX + name, kind=kind, text=text)
        for name, kind, text in rows
    }


DEVICE_METRICS: Final = _table()
"""By full name, in the order in which they are exposed."""
RECOVERY_ACTION: Final = "muster_gpu_recovery_action"
"""What the driver asks for (NVML's field 230), 0 for nothing; a value beside those of DCGM."""
OWN_METRICS: Final = {
    RECOVERY_ACTION: DeviceMetric(
        name=RECOVERY_ACTION,
        kind=MetricKind.GAUGE,
        text="Action that the driver asks for: 0 none, 1 reset, 2 reboot, 3 to 7 as in NVML.",
    )
}
