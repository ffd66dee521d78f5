"""Where the GPUs of each flavor are now: nine states, whose sum is the capacity exactly.

What is held is used, unused or unmeasured while the workload runs, starting before that, and
draining while it is stopped. What nobody holds is unhealthy, draining, switching, kept or free.
A GPU of several is counted in thousandths, so a share and the rest of its GPU are apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from prometheus_client.core import Metric

from services.monitoring import fleet
from services.monitoring.families import gauge, gpus
from services.monitoring.memory import Devices, MonitoringMemory, NodeHealth
from shared.core.health.device import TAKES_WORK, DeviceState
from shared.core.model.lifecycle import State
from shared.core.model.units import GPU_MILLI
from shared.events.nodes import GpuUsageReported


class GpuState(StrEnum):
    """Where a GPU, or a part of it, is."""

    USED = "used"
    UNUSED = "unused"
    UNMEASURED = "unmeasured"
    STARTING = "starting"
    KEPT = "kept"
    SWITCHING = "switching"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"
    FREE = "free"


_STARTS: Final = frozenset({State.PLACED, State.BOUND})
Counts = Counter[tuple[str, ...]]


def families(memory: MonitoringMemory) -> Iterator[Metric]:
    """The gauge of all states."""
    text = (
        "GPUs by where they are now: used, unused, unmeasured (held by running work), starting,"
        " kept, switching, draining, unhealthy, free; their sum is the capacity."
    )
    yield gauge("muster_gpu_state", text, "flavor state", gpus(milli_by_state(memory)))


def milli_by_state(memory: MonitoringMemory) -> Counts:
    """Milli-GPU by flavor and state; every state of a flavor that has nodes. O(GPUs)."""
    nodes = {name: one for name, one in memory.nodes.copy().items() if one.present}
    counts: Counts = Counter(
        {(one.flavor, state.value): 0 for one in nodes.values() for state in GpuState}
    )
    devices = memory.devices.copy()
    held = _held(devices.values())
    heard = fleet.recent(memory)
    for workload_id, shares in devices.items():
        seen = memory.workloads.get(workload_id)
        for node, gpu, milli, mask in shares:
            home = nodes.get(node)
            if home is None or gpu not in home.healthy:
                continue
            if seen is not None and seen.state is State.RUNNING:
                used = used_milli(heard.get(node), (gpu, mask), milli, held[node, gpu])
                _split(counts, home.flavor, milli, used)
            else:
                starts = seen is None or seen.state in _STARTS
                state = GpuState.STARTING if starts else GpuState.DRAINING
                counts[home.flavor, state.value] += milli
    _unheld(memory, nodes, held, counts)
    return counts


def used_milli(
    report: GpuUsageReported | None, share: tuple[int, int], milli: int, held_milli: int
) -> int | None:
    """How much of a share is used: of a shared GPU by what is held of it; None: unmeasured."""
    gpu, mask = share
    if report is None:
        return None
    for one in report.instances:
        if (one.gpu, one.mask) == share and mask:
            return milli * min(one.utilization_percent, 100) // 100
    if gpu in report.unread or gpu >= len(report.utilization_percent):
        return None
    used = report.utilization_percent[gpu] * GPU_MILLI // 100 * milli // max(held_milli, 1)
    return min(milli, used)


def _held(all_shares: Iterable[Devices]) -> Counter[tuple[str, int]]:
    held: Counter[tuple[str, int]] = Counter()
    for shares in all_shares:
        for node, gpu, milli, _ in shares:
            held[node, gpu] += milli
    return held


def _split(counts: Counts, flavor: str, milli: int, used: int | None) -> None:
    if used is None:
        counts[flavor, GpuState.UNMEASURED.value] += milli
    else:
        counts[flavor, GpuState.USED.value] += used
        counts[flavor, GpuState.UNUSED.value] += milli - used


def _unheld(
    memory: MonitoringMemory,
    nodes: dict[str, NodeHealth],
    held: Counter[tuple[str, int]],
    counts: Counts,
) -> None:
    for name, node in nodes.items():
        for gpu, healthy in node.healthy.items():
            rest = GPU_MILLI - held[name, gpu]
            if rest > 0:
                state = _state_of(memory, (name, gpu), node) if healthy else GpuState.UNHEALTHY
                counts[node.flavor, state.value] += rest


def _state_of(memory: MonitoringMemory, place: tuple[str, int], node: NodeHealth) -> GpuState:
    step = memory.steps.get(place)
    drains = step is not None and step.state is DeviceState.DRAINING
    out = step is not None and step.state not in TAKES_WORK and not drains
    if out or not node.starts or place[0] in memory.silent:
        return GpuState.UNHEALTHY
    if drains or node.cordoned:
        return GpuState.DRAINING
    if place in memory.kept.switching:
        return GpuState.SWITCHING
    return GpuState.KEPT if place[0] in memory.kept.nodes else GpuState.FREE
