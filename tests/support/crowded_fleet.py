"""A memory of monitoring of a large fleet: nodes of eight GPUs, work on them and work that waits.

Teams, queues and flavors are dealt out in turn, so equal arguments make equal memories.
"""

from __future__ import annotations

from typing import Final

from services.monitoring import fleet
from services.monitoring.memory import MonitoringMemory
from services.monitoring.records import NodeHealth, SeenFlavor, SeenWorkload
from services.monitoring.use_memory import ChargedAttempt, NodeUse
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Level
from shared.core.model.reason import Reason
from shared.core.model.units import GPU_MILLI, UNLIMITED, Resources
from shared.core.needed_nodes import GangNeed, WaitingGang
from shared.core.quota.cost import DAY_MS
from shared.events.nodes import GpuUsageReported
from shared.events.quotas import FlavorQuota, QuotaChanged

NODE_GPUS: Final = 8
FLAVORS: Final = ("a100", "h100", "h200")
SIZES: Final = (1, 2, 4, 8)
NOW_MS: Final = 1_700_000_000_000
HEALTHY: Final = dict.fromkeys(range(NODE_GPUS), True)
RACK_NODES: Final = 16


def crowded(
    *, nodes: int, gangs: int, teams: int = 10, near: bool = False, free: int = 1
) -> MonitoringMemory:
    """Each node has `free` of its GPUs free and one workload; `gangs` wait for room.

    `near`: the gangs must each lie within one rack, and have pods of two sizes.
    """
    memory = MonitoringMemory()
    memory.flavors = {name: SeenFlavor(node_gpus=NODE_GPUS) for name in FLAVORS}
    for team in range(teams):
        _queue(memory, f"team-{team}")
    for number in range(nodes):
        _node(memory, number, f"team-{number % teams}", NODE_GPUS - free)
    for number in range(gangs):
        _gang(memory, number, f"team-{number % teams}", near=near)
    return memory


def _queue(memory: MonitoringMemory, team: str) -> None:
    nominal = Resources(gpu_milli=UNLIMITED, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)
    limits = tuple(FlavorQuota(flavor=name, nominal=nominal) for name in FLAVORS)
    memory.quotas[team] = QuotaChanged(name=team, kind="queue", team=team, flavors=limits)


def _node(memory: MonitoringMemory, number: int, team: str, held: int) -> None:
    name, flavor = f"n{number:05d}", FLAVORS[number % len(FLAVORS)]
    domains = {Level.RACK: f"r{number // RACK_NODES}"}
    memory.nodes[name] = NodeHealth(1, flavor, healthy=HEALTHY, domains=domains)
    one = _workload(memory, f"held-{number}", team, State.RUNNING)
    one.flavor, one.gpu_milli, one.placed_at_ms = flavor, held * GPU_MILLI, NOW_MS
    one.charge = (held * GPU_MILLI, 0, 0)
    memory.held.begin(one)
    memory.count(one, 1)
    memory.take(f"held-{number}", tuple((name, gpu, GPU_MILLI, 255) for gpu in range(held)))
    used = GpuUsageReported(
        node=name,
        at_ms=NOW_MS,
        utilization_percent=(90,) * NODE_GPUS,
        memory_used_mib=(10_000,) * NODE_GPUS,
        temperature_celsius=(60,) * NODE_GPUS,
        power_watts=(500,) * NODE_GPUS,
    )
    fleet.used(memory, used, NOW_MS)
    _charge(memory, f"held-{number}", one, name)


def _charge(memory: MonitoringMemory, workload_id: str, one: SeenWorkload, node: str) -> None:
    """Where its GPU-hours go is followed."""
    memory.use.accounts[workload_id] = ChargedAttempt(
        attempt=1,
        resizes=0,
        team=one.team,
        queue=one.queue,
        namespace=one.team,
        flavor=one.flavor,
        gpu_milli=one.gpu_milli,
        started_ms=NOW_MS,
        day=NOW_MS // DAY_MS,
        told_ms=NOW_MS,
    )
    memory.use.nodes[node] = NodeUse(settled_ms=NOW_MS, sums={workload_id: {}})


def _gang(memory: MonitoringMemory, number: int, team: str, *, near: bool) -> None:
    size, pods = SIZES[number // 7 % len(SIZES)], 1 + number // 3 % 5
    one = _workload(memory, f"waits-{number}", team, State.QUEUED)
    one.reason, one.priority = Reason.NO_CAPACITY.value, number // 11 % 3
    one.waits_since_ms = NOW_MS + number
    equal = ((pods, size, 0), (1, 1, 0)) if near else ((pods, size, 0),)
    need = GangNeed(pods=equal, level=Level.RACK if near else None)
    one.wanted = WaitingGang(queue=team, need=need, request=(pods * size * GPU_MILLI, 0, 0))
    memory.count(one, 1)


def _workload(memory: MonitoringMemory, name: str, team: str, state: State) -> SeenWorkload:
    one = memory.workloads[name] = SeenWorkload(
        team=team, queue=team, state=state, version=1, queued=True
    )
    return one
