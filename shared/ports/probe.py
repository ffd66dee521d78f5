"""What a node agent reads: NVML on a real node, a described machine in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from shared.core.model.nouns import Node
from shared.events.nodes import (
    GpuHealthReported,
    GpuUsageReported,
    HealthEventReported,
    NodeNoticeReported,
)

Change = GpuHealthReported | HealthEventReported | NodeNoticeReported
"""What changed on a node."""


class GpuProbe(Protocol):
    """One node as it was read last; calls never block."""

    def inventory(self) -> Node:
        """The node with all its devices."""
        ...

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Use of every GPU now."""
        ...

    def changes(self) -> Sequence[Change]:
        """Changes of health since the last call."""
        ...
