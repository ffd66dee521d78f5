"""What node and usage facts do to memory, and what they amount to by flavor and team."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from services.monitoring.memory import BREAKER, KEPT, NODE, STEP, MonitoringMemory
from services.monitoring.records import HeardUse, KeptNodes, LadderStep, NodeHealth
from shared.core.cluster.topology import paths_of
from shared.core.health.device import TAKES_WORK, DeviceState
from shared.core.model.units import GPU_MILLI
from shared.events.nodes import (
    DeviceHealthChanged,
    GpuHealthReported,
    GpuUsageReported,
    NodeInventoryReported,
    NodeRemoved,
    NodesKept,
)

USAGE_AGE_MS_MAX: Final = 120_000
"""Older than the newest report by more, a node's use counts as unknown."""


def inventory(memory: MonitoringMemory, fact: NodeInventoryReported) -> None:
    """All of a node; replaces what was known."""
    node = fact.node
    if _newer(memory, node.name, fact.generation):
        known = memory.nodes.get(node.name)
        state = NodeHealth(
            fact.generation,
            node.flavor,
            ready=node.ready,
            healthy={gpu.index: gpu.healthy for gpu in node.gpus},
            shunned=known is not None and known.shunned,
            cordoned=known is not None and known.cordoned,
            domains={level: "/".join(path) for level, path in paths_of(node)},
        )
        _keep(memory, node.name, state)


def health(memory: MonitoringMemory, fact: GpuHealthReported) -> None:
    """The health of one GPU, or of the whole node for -1."""
    node = memory.nodes.get(fact.node)
    if node is None or not _newer(memory, fact.node, fact.generation):
        return
    node.generation = fact.generation
    if fact.gpu < 0:
        node.ready = fact.healthy
    else:
        # A new dictionary: a scrape in another thread may be reading the old one.
        node.healthy = node.healthy | {fact.gpu: fact.healthy}
    _keep(memory, fact.node, node)


def removed(memory: MonitoringMemory, fact: NodeRemoved) -> None:
    """The node is gone; its generation stays, so that old news stays old."""
    if _newer(memory, fact.node, fact.generation):
        _keep(memory, fact.node, NodeHealth(fact.generation, "", present=False))
        memory.usage.pop(fact.node, None)
        for place in [place for place in memory.steps if place[0] == fact.node]:
            del memory.steps[place]
            memory.journal.drop(STEP, f"{fact.node}/{place[1]}")


def shunned(memory: MonitoringMemory, name: str, *, shunned: bool) -> None:
    """Placement starts nothing on a node, or tries it again."""
    node = memory.nodes.get(name)
    if node is not None:
        node.shunned = shunned
        _keep(memory, name, node)


def cordoned(memory: MonitoringMemory, name: str, *, cordoned: bool) -> None:
    """Nothing is started on a node, or work is again."""
    node = memory.nodes.get(name)
    if node is not None and node.cordoned is not cordoned:
        node.cordoned = cordoned
        _keep(memory, name, node)


def kept(memory: MonitoringMemory, fact: NodesKept) -> None:
    """All that new work is kept off; replaces what was told before."""
    memory.kept = KeptNodes(
        frozenset(name for one in fact.kept for name in one.nodes),
        frozenset((one.node, one.gpu) for one in fact.switching),
    )
    memory.journal.put(KEPT, "", memory.kept)


def step(memory: MonitoringMemory, fact: DeviceHealthChanged, at_ms: int) -> None:
    """A device is elsewhere on the ladder of health; what was only told is no step."""
    if not fact.done:
        if fact.breaker:
            memory.breaker_ms = max(memory.breaker_ms, at_ms)
            memory.journal.put(BREAKER, "", memory.breaker_ms)
        return
    place, key = (fact.node, fact.gpu), f"{fact.node}/{fact.gpu}"
    if fact.after is not DeviceState.HEALTHY:
        memory.steps[place] = LadderStep(fact.after, fact.rule, at_ms)
        memory.journal.put(STEP, key, memory.steps[place])
    elif memory.steps.pop(place, None) is not None:
        memory.journal.drop(STEP, key)


def on_ladder(memory: MonitoringMemory) -> Counter[tuple[str, ...]]:
    """GPUs that are not healthy by the ladder, by flavor and state. O(those)."""
    counts: Counter[tuple[str, ...]] = Counter()
    for (name, _), step in memory.steps.copy().items():
        node = memory.nodes.get(name)
        if node is not None and node.present:
            counts[node.flavor, step.state.value] += 1
    return counts


def shunned_nodes(memory: MonitoringMemory) -> Counter[str]:
    """Nodes that are shunned, by flavor; those with none, too. O(nodes)."""
    counts: Counter[str] = Counter()
    for node in memory.nodes.copy().values():
        if node.present:
            counts[node.flavor] += node.shunned
    return counts


def used(memory: MonitoringMemory, fact: GpuUsageReported, logged_ms: int) -> None:
    """Use of the GPUs of one node; only the newest report is kept, and only in memory."""
    known = memory.usage.get(fact.node)
    if known is None or logged_ms >= known.logged_ms:
        memory.usage[fact.node] = HeardUse(fact, logged_ms)


def capacity(memory: MonitoringMemory) -> tuple[Counter[str], Counter[str]]:
    """GPUs by flavor: all, and those that can take work. O(nodes)."""
    total: Counter[str] = Counter()
    fit: Counter[str] = Counter()
    nodes = memory.nodes.copy()
    for node in nodes.values():
        if node.present:
            total[node.flavor] += len(node.healthy)
            fit[node.flavor] += sum(node.healthy.values()) if node.ready else 0
    for (name, gpu), step in memory.steps.copy().items():
        known = nodes.get(name)
        if known is not None and known.present and known.ready and step.state not in TAKES_WORK:
            fit[known.flavor] -= known.healthy.get(gpu, False)
    return total, fit


def utilised(memory: MonitoringMemory) -> tuple[dict[str, float], dict[str, float]]:
    """GPUs in use by team (a shared one by what each holds of it), and mean use by flavor.

    O(GPUs); called by a scrape, in a thread of its own.
    """
    heard = recent(memory)
    by_team: dict[str, float] = {}
    shares: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for team, node, gpu, milli in _holders(memory):
        if milli >= GPU_MILLI:  # no other holds of it
            by_team[team] = by_team.get(team, 0.0) + _percent(heard.get(node), gpu) / 100
        else:
            shares.setdefault((node, gpu), []).append((team, milli))
    for (node, gpu), holders in shares.items():
        percent = _percent(heard.get(node), gpu)
        held = sum(milli for _, milli in holders) or GPU_MILLI
        for team, milli in holders:
            by_team[team] = by_team.get(team, 0.0) + percent / 100 * milli / held
    return by_team, _mean_by_flavor(memory, heard)


def _mean_by_flavor(
    memory: MonitoringMemory, heard: dict[str, GpuUsageReported]
) -> dict[str, float]:
    total: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for name, node in memory.nodes.copy().items():
        usage = heard.get(name)
        if node.present and usage is not None:
            total[node.flavor] += sum(usage.utilization_percent)
            count[node.flavor] += len(usage.utilization_percent)
    return {flavor: total[flavor] / 100 / count[flavor] for flavor in count if count[flavor]}


def recent(memory: MonitoringMemory) -> dict[str, GpuUsageReported]:
    """The reports of nodes that still count, by node. O(nodes)."""
    usage = memory.usage.copy()
    oldest_ms = max((one.logged_ms for one in usage.values()), default=0) - USAGE_AGE_MS_MAX
    return {node: one.report for node, one in usage.items() if one.logged_ms >= oldest_ms}


def _holders(memory: MonitoringMemory) -> Iterator[tuple[str, str, int, int]]:
    workloads = memory.workloads.copy()
    for workload_id, devices in memory.devices.copy().items():
        one = workloads.get(workload_id)
        if one is not None:
            for node, gpu, milli, _ in devices:
                yield one.team, node, gpu, milli


def _percent(usage: GpuUsageReported | None, gpu: int) -> int:
    if usage is None or gpu >= len(usage.utilization_percent):
        return 0
    return usage.utilization_percent[gpu]


def _newer(memory: MonitoringMemory, name: str, generation: int) -> bool:
    known = memory.nodes.get(name)
    return known is None or generation > known.generation


def _keep(memory: MonitoringMemory, name: str, node: NodeHealth) -> None:
    memory.nodes[name] = node
    memory.journal.put(NODE, name, node)
