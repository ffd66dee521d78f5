"""What work holds each GPU, to be joined with what agents read of it; on a path of its own.

A series for each share of a GPU: too many for the other gauges, so it is written as text. Slices
of a GPU in MIG mode have the number by which their agent names them, as its last report of their
use tells it; those of which it does not are left out.
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
NAMES: Final = ("hostname", "gpu", "GPU_I_ID", "team", "queue", "kind")
_HEAD: Final = (
    f"# HELP {HOLDER} Share of a GPU that work of a team, queue and kind holds, 0 to 1.",
    f"# TYPE {HOLDER} gauge",
)


def exposition(memory: MonitoringMemory, team: Callable[[str], str]) -> str:
    """The text; `team` caps names of teams. O(shares)."""
    held: Counter[Labels] = Counter()
    workloads, slices = memory.workloads.copy(), _slices(memory)
    for workload_id, devices in memory.devices.copy().items():
        one = workloads.get(workload_id)
        if one is None:
            continue
        for node, gpu, milli, mask in devices:
            number = "" if mask in {0, WHOLE_MASK} else slices.get((node, gpu, mask))
            if number is not None:
                held[node, str(gpu), number, team(one.team), one.queue, one.kind] += milli
    lines = [
        f"{HOLDER}{{{_told(labels)}}} {milli / GPU_MILLI:g}" for labels, milli in held.items()
    ]
    return "\n".join((*_HEAD, *lines, ""))


def _slices(memory: MonitoringMemory) -> dict[tuple[str, int, int], str]:
    """Numbers of GPU instances, by (node, index of the GPU, memory slices as a mask)."""
    return {
        (node, one.gpu, one.mask): str(one.number)
        for node, heard in memory.usage.copy().items()
        for one in heard.report.instances
        if one.number >= 0
    }


def _told(labels: Labels) -> str:
    """Prometheus knows no label without a value."""
    named = zip(NAMES, labels, strict=True)
    return ",".join(f'{name}="{escaped(value)}"' for name, value in named if value)
