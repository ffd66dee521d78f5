"""What work holds each GPU, to be joined with what agents read of it; on a path of its own.

A series for each share of a GPU: too many for the other gauges, so it is written as text. Slices
of a GPU in MIG mode are left out: their number, by which an agent names them, is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from services.monitoring.gauges.families import Labels
from services.monitoring.memory import MonitoringMemory
from shared.core.model.units import GPU_MILLI
from shared.core.telemetry.exposition import escaped
from shared.core.usage import WHOLE_MASK

PATH: Final = "/metrics/devices"
HOLDER: Final = "muster_gpu_holder"
NAMES: Final = ("hostname", "gpu", "team", "queue", "kind")
_HEAD: Final = (
    f"# HELP {HOLDER} Share of a GPU that work of a team, queue and kind holds, 0 to 1.",
    f"# TYPE {HOLDER} gauge",
)


def exposition(memory: MonitoringMemory, team: Callable[[str], str]) -> str:
    """The text; `team` caps names of teams. O(shares)."""
    held: Counter[Labels] = Counter()
    workloads = memory.workloads.copy()
    for workload_id, devices in memory.devices.copy().items():
        one = workloads.get(workload_id)
        if one is None:
            continue
        for node, gpu, milli, mask in devices:
            if mask in {0, WHOLE_MASK}:
                held[node, str(gpu), team(one.team), one.queue, one.kind] += milli
    lines = [
        f"{HOLDER}{{{_told(labels)}}} {milli / GPU_MILLI:g}" for labels, milli in held.items()
    ]
    return "\n".join((*_HEAD, *lines, ""))


def _told(labels: Labels) -> str:
    return ",".join(
        f'{name}="{escaped(value)}"' for name, value in zip(NAMES, labels, strict=True)
    )
