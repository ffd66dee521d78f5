"""Where an agent reads the GPUs of its node: NVML in a child process, or a dcgm-exporter."""

from __future__ import annotations

from typing import Protocol

from shared.core.telemetry.readings import DeviceInventory, NodeReading
from shared.ports.errors import MusterError


class SourceSilentError(MusterError):
    """Nothing was told of any GPU; the message says why."""


class GpuSource(Protocol):
    """Tells of the devices of one node; every call ends in bounded time."""

    async def inventory(self) -> DeviceInventory:
        """What the devices are.

        Raises:
            SourceSilentError: nothing was told.
        """
        ...

    async def read(self, *, full: bool = True) -> NodeReading:
        """The values of all GPUs; one that is lost or does not answer is told as such.

        Not `full`: what changes slowly may be told as it was read in full last.

        Raises:
            SourceSilentError: nothing was told.
        """
        ...

    async def set_mig(self, uuid: str, *, mig: bool) -> str:
        """Change the mode of an idle GPU; returns what prevented it, empty if nothing did."""
        ...

    async def close(self) -> None:
        """Stop reading."""
        ...
