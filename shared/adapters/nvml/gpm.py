"""GPM: how busy the parts of a GPU were between two samples (Hopper and newer, MIG too).

Source: NVML, nvmlGpmMetricId_t; per cent become 0 to 1, and MiB/s bytes/s, as DCGM tells them.
"""

from __future__ import annotations

import math
from typing import Any, Final

from shared.adapters.nvml.library import MIB, Library
from shared.core.health.events import NO_INSTANCE
from shared.core.telemetry.metrics import PREFIX

FIELDS: Final = {
    1: ("PROF_GR_ENGINE_ACTIVE", 0.01),
    2: ("PROF_SM_ACTIVE", 0.01),
    3: ("PROF_SM_OCCUPANCY", 0.01),
    5: ("PROF_PIPE_TENSOR_ACTIVE", 0.01),
    10: ("PROF_DRAM_ACTIVE", 0.01),
    11: ("PROF_PIPE_FP64_ACTIVE", 0.01),
    12: ("PROF_PIPE_FP32_ACTIVE", 0.01),
    13: ("PROF_PIPE_FP16_ACTIVE", 0.01),
    20: ("PROF_PCIE_TX_BYTES", MIB),
    21: ("PROF_PCIE_RX_BYTES", MIB),
}
_OF_INSTANCES: Final = frozenset({1, 2, 3, 5, 10, 11, 12, 13})
"""An instance has no PCIe link of its own."""


class Gpm:
    """The last sample of each GPU and of each instance; the next reading is told against it."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._samples: dict[tuple[str, int], Any] = {}
        self._supported: dict[str, bool] = {}

    def read(self, uuid: str, handle: Any, instance: int = NO_INSTANCE) -> dict[str, float]:  # noqa: ANN401
        """Values since the last call; none at the first, and where GPM is not supported."""
        if not self._supports(uuid, handle):
            return {}
        nvml = self._library.nvml
        sample = self._library.ask(lambda: self._sample(handle, instance), None)
        before = self._samples.pop((uuid, instance), None)
        if sample is not None:
            self._samples[uuid, instance] = sample
        if before is None:
            return {}
        told: dict[str, float] = {}
        if sample is not None:
            told = self._library.ask(lambda: self._between(before, sample, instance), {})
        nvml.nvmlGpmSampleFree(before)
        return told

    def _supports(self, uuid: str, handle: Any) -> bool:  # noqa: ANN401
        if uuid not in self._supported:
            ask = self._library.nvml.nvmlGpmQueryDeviceSupport
            self._supported[uuid] = self._library.ask(
                lambda: bool(ask(handle).isSupportedDevice), otherwise=False
            )
        return self._supported[uuid]

    def _sample(self, handle: Any, instance: int) -> Any:  # noqa: ANN401
        nvml = self._library.nvml
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            if instance == NO_INSTANCE:
                nvml.nvmlGpmSampleGet(handle, sample)
            else:
                nvml.nvmlGpmMigSampleGet(handle, instance, sample)
        except nvml.NVMLError:
            nvml.nvmlGpmSampleFree(sample)
            raise
        return sample

    def _between(self, before: Any, after: Any, instance: int) -> dict[str, float]:  # noqa: ANN401
        nvml = self._library.nvml
        wanted = [one for one in FIELDS if instance == NO_INSTANCE or one in _OF_INSTANCES]
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(wanted)
        asked.sample1, asked.sample2 = before, after
        for at, one in enumerate(wanted):
            asked.metrics[at].metricId = one
        nvml.nvmlGpmMetricsGet(asked)
        told = {}
        for at, one in enumerate(wanted):
            name, unit = FIELDS[one]
            value = float(asked.metrics[at].value)
            if asked.metrics[at].nvmlReturn == 0 and math.isfinite(value):
                told[PREFIX + name] = value * unit
        return told
