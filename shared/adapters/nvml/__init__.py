"""NVML, called in a child process: `NvmlSource` is `ports.gpu_source.GpuSource`."""

from shared.adapters.nvml.answers import XidTold
from shared.adapters.nvml.source import NvmlSource

__all__ = ["NvmlSource", "XidTold"]
