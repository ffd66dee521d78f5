"""What reads the devices of this node, as the settings say."""

from __future__ import annotations

from collections.abc import Callable

from services.node_agent.settings import SourceSettings
from shared.adapters.dcgm_exporter import DcgmExporterSource
from shared.adapters.nvml import NvmlSource, XidTold
from shared.ports.clock import Clock
from shared.ports.gpu_source import GpuSource


def open_source(
    settings: SourceSettings, clock: Clock, tell: Callable[[XidTold], None]
) -> GpuSource:
    """NVML, whose events are told to `tell`, or a dcgm-exporter, which has none."""
    if settings.gpu_probe == "dcgm":
        return DcgmExporterSource(settings.dcgm_url, clock)
    seconds = settings.nvml_deadline_seconds or 3 * settings.usage_seconds
    return NvmlSource(clock=clock, tell=tell, deadline_seconds=seconds)
