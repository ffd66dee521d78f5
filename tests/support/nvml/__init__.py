"""A stand-in of NVIDIA's NVML: `StandIn` writes what it answers, `boards` are ready-made."""

from tests.support.nvml.stand_in import StandIn, build

__all__ = ["StandIn", "build"]
