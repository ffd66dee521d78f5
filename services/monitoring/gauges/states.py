"""Where the GPUs of each flavor are now: nine states, whose sum is the capacity exactly.

What is held is used, unused or unmeasured while the workload runs, starting before that, and
draining while it is stopped. What nobody holds is unhealthy, draining, switching, kept or free.
A GPU of several is counted in thousandths, so a share and the rest of its GPU are apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from prometheus_client.core import Metric

from services.monitoring import fleet
from services.monitoring.gauges.families import gauge, gpus
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import Devices, LadderStep, NodeHealth
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


USED, UNUSED, UNMEASURED, STARTING, KEPT, SWITCHING, DRAINING, UNHEALTHY, FREE = (
    one.value for one in GpuState
)
"""Plain words: an enum is slow as a key, and a scrape counts every GPU."""
_STARTS: Final = frozenset({State.PLACED, State.BOUND})
Counts = Counter[tuple[str, ...]]
Place = tuple[str, int]
"""(node, index of the GPU)"""


@dataclass(slots=True)
class Measured:
    """Milli-GPU that running work of a flavor holds."""

    used: int = 0
    unused: int = 0
    unmeasured: int = 0

    def add(self, milli: int, used: int | None) -> None:
        """A share, and how much of it is used; None: unmeasured."""
        if used is None:
            self.unmeasured += milli
        else:
            self.used += used
            self.unused += milli - used


class Standing(NamedTuple):
    """Where all GPUs are at one moment."""

    nodes: Mapping[str, NodeHealth]
    """Those that are present."""
    milli: Counts
    """Milli-GPU by flavor and state; every state of a flavor that has nodes."""
    free: dict[str, int]
    """Wholly free GPUs of each node that is present and has one."""


def families(standing: Standing) -> Iterator[Metric]:
    """The gauge of all states."""
    text = (
        "GPUs by where they are now: used, unused, unmeasured (held by running work), starting,"
        " kept, switching, draining, unhealthy, free; their sum is the capacity."
    )
    yield gauge("muster_gpu_state", text, "flavor state", gpus(standing.milli))


def standing_of(memory: MonitoringMemory) -> Standing:
    """Where each GPU is. O(GPUs)."""
    nodes = {name: one for name, one in memory.nodes.copy().items() if one.present}
    flavors = {one.flavor for one in nodes.values()}
    counts: Counts = Counter({(one, state.value): 0 for one in flavors for state in GpuState})
    devices = memory.devices.copy()
    held = _held(devices.values())
    _count_held(memory, nodes, devices, held, counts)
    return Standing(nodes, counts, _count_unheld(memory, nodes, held, counts))


def _count_held(
    memory: MonitoringMemory,
    nodes: Mapping[str, NodeHealth],
    devices: Mapping[str, Devices],
    held: Counter[Place],
    counts: Counts,
) -> None:
    heard = fleet.recent(memory)
    measured = {one.flavor: Measured() for one in nodes.values()}
    for workload_id, shares in devices.items():
        seen = memory.workloads.get(workload_id)
        state = State.PLACED if seen is None else seen.state
        other = STARTING if state in _STARTS else DRAINING
        for node, gpu, milli, mask in shares:
            home = nodes.get(node)
            if home is None or gpu not in home.healthy:
                continue
            if state is State.RUNNING:
                used = used_milli(heard.get(node), (gpu, mask), milli, held[node, gpu])
                measured[home.flavor].add(milli, used)
            else:
                counts[home.flavor, other] += milli
    for flavor, one in measured.items():
        for name, milli in ((USED, one.used), (UNUSED, one.unused), (UNMEASURED, one.unmeasured)):
            counts[flavor, name] += milli


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


def _held(all_shares: Iterable[Devices]) -> Counter[Place]:
    held: Counter[Place] = Counter()
    for shares in all_shares:
        for node, gpu, milli, _ in shares:
            held[node, gpu] += milli
    return held


def _count_unheld(
    memory: MonitoringMemory,
    nodes: Mapping[str, NodeHealth],
    held: Counter[Place],
    counts: Counts,
) -> dict[str, int]:
    """Wholly free GPUs by node. Its GPUs are alike but for a fault, a step, a change of mode."""
    whole: dict[str, int] = {}
    kept, steps = memory.kept, memory.steps.copy()
    special = {name for name, _ in steps} | {name for name, _ in kept.switching}
    for name, node in nodes.items():
        usual = state_of_node(memory, name, node)
        rest: Counter[str] = Counter()
        free_gpus = 0
        for gpu, healthy in node.healthy.items():
            free = GPU_MILLI - held.get((name, gpu), 0)
            if free > 0:
                state = usual if healthy else UNHEALTHY
                if healthy and name in special:
                    switches = (name, gpu) in kept.switching
                    state = _state_of(usual, steps.get((name, gpu)), switching=switches)
                rest[state] += free
                free_gpus += state == FREE and free == GPU_MILLI
        for state, free in rest.items():
            counts[node.flavor, state] += free
        if free_gpus:
            whole[name] = free_gpus
    return whole


def state_of_node(memory: MonitoringMemory, name: str, node: NodeHealth) -> str:
    """The state of its GPUs that are held by no work and have no fault of their own."""
    if not node.starts or name in memory.silent:
        return UNHEALTHY
    if node.cordoned:
        return DRAINING
    return KEPT if name in memory.kept.nodes else FREE


def _state_of(usual: str, step: LadderStep | None, *, switching: bool) -> str:
    """Of a healthy GPU that is not like the others of its node."""
    drains = step is not None and step.state is DeviceState.DRAINING
    if usual == UNHEALTHY or (step is not None and step.state not in TAKES_WORK and not drains):
        return UNHEALTHY
    if usual == DRAINING or drains:
        return DRAINING
    return SWITCHING if switching else usual
