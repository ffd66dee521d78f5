"""What a node agent reads: NVML on a real node, a described machine in the simulator."""

from __future__ import annotations

from typing import Protocol

from shared.core.model.nouns import Node
from shared.events.nodes import GpuHealthReported, GpuUsageReported, NodeNoticeReported


class GpuProbe(Protocol):
    """Reads one node; calls may block and are made off the event loop."""

    def inventory(self) -> Node:
        """The node with all its devices."""
        ...

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Use of every GPU now."""
        ...

    def changes(self) -> list[GpuHealthReported | NodeNoticeReported]:
        """Changes of health since the last call."""
        ...
