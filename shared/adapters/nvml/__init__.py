"""NVML, called in a child process: `NvmlSource` is `ports.gpu_source.GpuSource`."""

from shared.adapters.nvml.answers import XidTold
from shared.adapters.nvml.events import SINGLE_BIT_STORM, XID_CRITICAL
from shared.adapters.nvml.source import NvmlSource

__all__ = ["SINGLE_BIT_STORM", "XID_CRITICAL", "NvmlSource", "XidTold"]
